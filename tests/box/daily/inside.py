"""Run inside a box (``python3 -ISc``): does the works on stdin, prints what their programs did.

A work is ``[TITLE, {FILE: TEXT}, [ARGV, ...]]``; the answer is ``{TITLE: [[CODE, PRINTED], ...]}``.
A program that cannot be started is 127 or 126 with the reason, as in a shell.
"""

import json
import os
import subprocess
import sys

WORK_S = 60


def step(argv, folder):
    if argv[0] == "cd":
        return [0, ""]
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=WORK_S,
        )
    except FileNotFoundError as error:
        return [127, f"{error}\n"]
    except OSError as error:
        return [126, f"{error}\n"]
    except subprocess.TimeoutExpired as error:
        return [124, f"{(error.stdout or b'').decode('utf-8', 'replace')}no end\n"]
    return [done.returncode, done.stdout.decode("utf-8", "replace")]


def work(folder, files, session):
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        if text.startswith("#!"):
            os.chmod(path, 0o755)
    results = []
    for argv in session:
        results.append(step(argv, folder))
        if argv[0] == "cd":
            folder = os.path.join(folder, argv[1])
    return results


def main():
    answers = {}
    for title, files, session in json.load(sys.stdin):
        folder = os.path.abspath(title.replace(" ", "-").replace("/", "-"))
        os.makedirs(folder)
        answers[title] = work(folder, files, session)
    print(json.dumps(answers))


main()
