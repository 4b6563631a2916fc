"""A day with tools: archives, databases, editors, transfers, keys."""

from __future__ import annotations

import shlex
import sys

import pytest

from box.daily.session import Day, Work

pytestmark = [pytest.mark.box, pytest.mark.programs, pytest.mark.usefixtures("leftovers")]

ARCHIVES = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = [
  "tar", "gzip", "gunzip", "zcat", "xz", "bzip2", "zip", "unzip", "cat", "rm", "diff", "rsync",
]
"""

TREE = {"src/a.txt": "text of a\n", "src/deep/b": "b\n" * 2000}

ARCHIVE_WORKS = [
    Work(
        "tar, plain and packed in every way",
        """
$ tar -cf a.tar src
$ tar -czf a.tar.gz src
$ tar -cJf a.tar.xz src
$ tar -cjf a.tar.bz2 src
$ rm -r src
$ tar -xf a.tar.gz
$ tar -xf a.tar.xz
$ tar -xf a.tar.bz2
$ tar -df a.tar
$ tar -tf a.tar src/a.txt
src/a.txt
$ tar -xOf a.tar.gz src/a.txt
text of a
$ tar -rf a.tar a.tar.gz
$ tar --delete -f a.tar a.tar.gz
""",
        TREE,
    ),
    Work(
        "gzip, xz and bzip2 round trips",
        """
$ gzip -k src/a.txt
$ zcat src/a.txt.gz
text of a
$ gunzip -f src/a.txt.gz
$ xz -T2 src/a.txt
$ xz -dc src/a.txt.xz
text of a
$ bzip2 -k src/deep/b
$ bzip2 -t src/deep/b.bz2
""",
        TREE,
    ),
    Work(
        "zip and unzip",
        """
$ zip -qr a.zip src
$ unzip -q a.zip -d out
$ diff -r src out/src
$ unzip -p a.zip src/a.txt
text of a
$ zip -qT a.zip
""",
        TREE,
    ),
    Work(
        "rsync between folders",
        """
$ rsync -a src/ copy
$ rsync -ain --delete src/ copy
$ rm src/a.txt
$ rsync -ai --delete src/ copy
*deleting   a.txt
$ diff -r src copy
""",
        TREE,
    ),
]

TOOLS = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = [
  "diff", "patch", "vim", "less", "file", "sqlite3", "jq", "bc", "dd", "cat", "curl", "wget",
  "openssl", "ssh", "ssh-keygen", "man", "python3", "timeout", "ps", "sh",
]
"""

SERVED = """
import http.server, subprocess, sys, threading
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
words = [word.replace("PORT", str(server.server_port)) for word in sys.argv[1:]]
sys.exit(subprocess.run(words).returncode)
"""

TOOL_WORKS = [
    Work(
        "diff and patch",
        """
$ diff -u a b --label a --label b
--- a
+++ b
@@ -1,2 +1,2 @@
 one
-two
+2
[1]
$ patch -s a change.patch
$ diff a b
""",
        {
            "a": "one\ntwo\n",
            "b": "one\n2\n",
            "change.patch": "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
        },
    ),
    Work(
        "a batch edit with vim",
        """
$ vim -N -u NONE -es -c "%s/one/1/" -c wq a
$ cat a
1
two
$ vim --clean -es -c "normal ggdd" -c "x" a
$ cat a
two
""",
        {"a": "one\ntwo\n"},
    ),
    Work(
        "less, file and man without a person",
        """
$ less a
text
$ file -b --mime-type a
text/plain
$ man -P cat ./page.1
...p - a page...
""",
        {"a": "text\n", "page.1": ".TH P 1\n.SH NAME\np - a page\n"},
    ),
    Work(
        "a database with sqlite3",
        """
$ sqlite3 a.db "create table t(x, y); insert into t values (1, 'a'), (2, 'b');"
$ sqlite3 -header -csv a.db "select * from t"
x,y
1,a
2,b
$ sqlite3 a.db ".dump t"
...INSERT INTO t VALUES(1,'a');
...
$ sqlite3 a.db ".backup copy.db"
$ sqlite3 copy.db "pragma journal_mode=wal; select sum(x) from t;"
wal
3
""",
    ),
    Work(
        "jq, bc and dd",
        """
$ jq -c ".a | map(. + 1)" a.json
[2,3]
$ bc -q expression
42
$ dd if=a.json of=copy bs=4 count=1 status=none
$ cat copy
{"a"
""",
        {"a.json": '{"a": [1, 2]}', "expression": "6 * 7\nquit\n"},
    ),
    Work(
        "curl and wget from a server in the box",
        """
$ python3 serve.py curl -sSf http://127.0.0.1:PORT/a.txt
served
$ python3 serve.py curl -sS -o got -w %{http_code} http://localhost:PORT/a.txt
200
$ cat got
served
$ python3 serve.py wget -qO- http://127.0.0.1:PORT/a.txt
served
$ timeout 20 curl -sS http://198.51.100.7/
curl: (7) ...
[7]
""",
        {"a.txt": "served\n", "serve.py": SERVED},
    ),
    Work(
        "digests, keys and certificates with openssl",
        """
$ openssl dgst -sha256 -r a.txt
98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4 *a.txt
$ openssl ecparam -name prime256v1 -genkey -noout -out k
$ openssl req -x509 -new -key k -out c -subj /CN=x -days 2
...
$ openssl x509 -in c -noout -subject
subject=CN = x
$ openssl enc -aes-256-cbc -pbkdf2 -pass pass:x -in a.txt -out sealed
$ openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x -in sealed
hi
""",
        {"a.txt": "hi\n"},
    ),
    Work(
        "ssh and its keys",
        """
$ ssh -V
OpenSSH_...
$ ssh-keygen -q -t ed25519 -N "" -f key
$ ssh-keygen -lf key.pub
256 SHA256:...
$ ssh -G -F none example.test
...user...
$ timeout 20 ssh -F none -o BatchMode=yes example.test
...
[255]
""",
    ),
    Work(
        "processes of the box alone",
        """
$ ps -e -o pid= -o comm=
...python3
...ps
""",
    ),
]


@pytest.mark.parametrize("work", ARCHIVE_WORKS, ids=lambda work: work.title)
def test_archives(day: Day, work: Work) -> None:
    """The session goes as it would outside."""
    day.check(ARCHIVES, ARCHIVE_WORKS, work)


@pytest.mark.parametrize("work", TOOL_WORKS, ids=lambda work: work.title)
def test_tools(day: Day, work: Work) -> None:
    """The session goes as it would outside."""
    day.check(TOOLS, TOOL_WORKS, work)


SUITE = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = ["{pytest}", "sh", "{python}"]
"""
# In a folder with spaces, pip writes it as a script for sh that starts the interpreter.
PYTEST = f"{sys.prefix}/bin/pytest"

PYTEST_WORKS = [
    Work(
        "a suite with fixtures, a failure and a report",
        f"""
$ {shlex.quote(PYTEST)} -q -p no:cacheprovider -p no:randomly test_good.py
...3 passed...
$ {shlex.quote(PYTEST)} -q -p no:cacheprovider --junit-xml=r.xml test_bad.py
...assert 1 == 2...1 failed...
[1]
""",
        {
            "test_good.py": "import pytest\n\n\n@pytest.mark.parametrize('n', [1, 2])\n"
            "def test_n(n, tmp_path, monkeypatch):\n    (tmp_path / 'x').write_text('x')\n"
            "    assert n\n\n\ndef test_output(capfd):\n    print('x')\n"
            "    assert capfd.readouterr().out == 'x\\n'\n",
            "test_bad.py": "def test_bad():\n    assert 1 == 2\n",
        },
    ),
]


@pytest.mark.parametrize("work", PYTEST_WORKS, ids=lambda work: work.title)
def test_pytest(day: Day, work: Work) -> None:
    """A program of a virtual environment, named by its path, brings its environment."""
    day.check(SUITE.format(pytest=PYTEST, python=sys.executable), PYTEST_WORKS, work)
