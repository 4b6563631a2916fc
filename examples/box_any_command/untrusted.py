"""A build step you did not write. It builds something, and looks around."""

import os
import socket
import subprocess
import sys
from pathlib import Path

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 5432

os.makedirs("out", exist_ok=True)
with open("out/result.txt", "w") as result:
    result.write("built\n")
print("built out/result.txt")


def attempt(what, do):
    try:
        do()
        print(f"{what}: yes")
    except OSError as error:
        print(f"{what}: {error.strerror}")


attempt("read the machine's passwords", Path("/etc/shadow").read_text)
attempt("change the sources", lambda: os.utime("untrusted.py"))
attempt("open a connection", lambda: socket.create_connection(("127.0.0.1", PORT), 2).close())
attempt("run curl", lambda: subprocess.run(["curl", "--version"]))
print(f"token: {os.environ.get('API_TOKEN', 'not there')}")
