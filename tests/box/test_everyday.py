"""A hundred everyday programs under the filter do and say what they do and say without it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from axonkernel.box import seccomp
from box.filtered import run_in_box

pytestmark = pytest.mark.box

#: One line each, for bash, in a folder with the files below; each ends 0.
LINES = r"""
ls -l a.txt | cut -d ' ' -f 1
cat a.txt b.txt
tac a.txt
rev a.txt
head -n 1 a.txt
tail -n 1 a.txt
tail -c 5 a.txt
wc a.txt
nl a.txt
sort -r a.txt
sort -u --parallel=2 -S 1M a.txt
uniq -c a.txt
tr a-z A-Z < a.txt
cut -c 1-3 a.txt
paste a.txt b.txt
join a.txt a.txt
comm a.txt a.txt
expand a.txt
unexpand a.txt
fold -w 4 a.txt
fmt a.txt
pr -t a.txt
split -l 1 a.txt part. && ls part.*
csplit -s a.txt 2 && ls xx*
cp a.txt c.txt && cat c.txt
cp -a folder copy && ls copy
cp --reflink=auto --sparse=always a.txt d.txt && cmp a.txt d.txt
mv c.txt e.txt && ls e.txt
ln e.txt f.txt && stat -c %h f.txt
ln -s a.txt link && readlink link
realpath --relative-to=. folder/../a.txt
mkdir -p deep/er && rmdir deep/er deep
mktemp -u ./XXXX | wc -c
touch -d 2020-01-01 g.txt && stat -c %Y g.txt
truncate -s 1M h.bin && stat -c %s h.bin
fallocate -l 4096 i.bin && stat -c %s i.bin
dd if=/dev/zero of=j.bin bs=1k count=4 status=none && stat -c %s j.bin
shred -u j.bin && test ! -e j.bin
chmod 640 g.txt && stat -c %a g.txt
chmod -R u+rwX,go-w folder && stat -c %a folder
chown "$(id -u):$(id -g)" g.txt
install -m 750 a.txt k.txt && stat -c %a k.txt
rm -r copy e.txt f.txt
unlink link
mkfifo pipe && (cat a.txt > pipe & cat pipe)
tee l.txt m.txt < a.txt
sync a.txt
du -a --apparent-size folder | sort
df --output=fstype . | tail -n 1
md5sum a.txt
sha256sum a.txt
sha512sum a.txt
b2sum a.txt
cksum a.txt
base64 a.txt
base32 a.txt
od -c a.txt
seq 1 3
shuf -i 1-1
factor 60
numfmt --to=iec 2048
expr 6 '*' 7
printf '%05.2f\n' 3.14159
echo -e 'x\ty'
yes | head -n 2
true
test -f a.txt
date -u -d @0 +%F
sleep 0.01
timeout 5 true
nice -n 1 true
nohup true
env -i X=1 env
printenv HOME
pwd
basename /x/y.z .z
dirname /x/y.z
pathchk a.txt
nproc --all | wc -l
uname -s
id -u
whoami
groups | wc -l
tty || test $? = 1
stty -a < /dev/null 2> /dev/null || test $? = 1
stdbuf -oL cat a.txt
tsort <<< 'a b'
ptx a.txt | wc -l
find . -name 'a.*' -type f
find . -name a.txt -exec cat {} +
xargs -n 1 echo < a.txt
xargs -P 4 -n 1 true < a.txt
grep -rn two a.txt folder
grep -P 'o\w' a.txt
sed -n '2p' a.txt
sed -i s/one/ONE/ l.txt && cat l.txt
awk '{ n += NF } END { print n }' a.txt
diff a.txt b.txt || test $? = 1
diff -u a.txt a.txt
cmp a.txt a.txt
sdiff a.txt a.txt | wc -l
tar cf x.tar folder && tar tf x.tar
tar czf x.tgz folder && tar tzf x.tgz
tar cJf x.txz folder && tar xJOf x.txz folder/c.txt
gzip -k a.txt && zcat a.txt.gz
xz -k -T 2 a.txt && xzcat a.txt.xz
bash -c 'for i in {1..3}; do echo $((i * i)); done'
bash -c 'set -o pipefail; cat <(echo x) <(echo y) | sort'
bash -c 'coproc cat; echo x >&"${COPROC[1]}"; read -r -u "${COPROC[0]}" y; echo "$y"'
bash -c 'trap "echo got" USR1; kill -USR1 $$; wait'
dash -c 'echo $((1 + 1))'
perl -e 'print join(",", map { $_ ** 2 } 1 .. 3), "\n"'
perl -MFile::Temp=tempfile -e 'my ($f) = tempfile(); print $f 1; print "ok\n"'
python3 -c 'import threading; t = threading.Thread(target=print, args=("x",)); t.start(); t.join()'
python3 -c 'import subprocess; print(subprocess.run(["true"]).returncode)'
python3 -c 'import multiprocessing as m; print(m.get_context("spawn").Process().exitcode)'
python3 -c 'import socket; a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1))'
python3 -c 'import ssl; print(bool(ssl.create_default_context()))'
python3 -c 'import mmap; m = mmap.mmap(-1, 4096); m[0] = 1; print(m[0])'
python3 -c 'import os; print(os.memfd_create("x") > 2, len(os.getrandom(4)))'
python3 -c 'import os, select; print(select.epoll().fileno() > 2, os.eventfd(0) > 2)'
python3 -c 'import signal, os; signal.alarm(1); print(os.sched_getaffinity(0) != set())'
python3 -c 'import fcntl; f = open("n.txt", "w"); fcntl.flock(f, 2); fcntl.lockf(f, 2); print(1)'
python3 -c 'import os; os.posix_spawn("/bin/true", ["true"], {}); print(os.wait()[1])'
python3 -c 'import pty; print(pty.spawn(["true"]))'
python3 -c 'import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0] >= -1)'
git init -q repo && git -C repo status --short
git -C repo -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
git -C repo gc -q && git -C repo fsck
git hash-object a.txt
gcc --version | wc -l
gcc -o prog prog.c && ./prog
ps -o comm= -p $$
ps aux | wc -l | grep -q .
pgrep -x nothing-of-this-name || test $? = 1
free | wc -l
uptime | wc -l
pidof nothing-of-this-name || test $? = 1
getopt -o a: -- -a x
flock lock true
setsid -w true
lscpu | grep -c Architecture
mountpoint -q /proc
unshare --help | head -n 1 | wc -l
hostname > /dev/null
getent passwd root | cut -d : -f 1
getconf PAGE_SIZE
locale | grep -c LC_
less -F a.txt < /dev/null
ssh -V
rsync -a folder/ synced && ls synced
rg -n two a.txt
kill -l 9
ldd /bin/true | wc -l
column -t a.txt || true
script -qec true /dev/null
""".strip().splitlines()

DRIVER = r"""
import json, os, subprocess, sys
os.mkdir("/dev/shm/w"); os.chdir("/dev/shm/w"); os.mkdir("folder"); os.mkdir("tmp")
open("a.txt", "w").write("one\ntwo\n"); open("b.txt", "w").write("three\n")
open("folder/c.txt", "w").write("two three\n")
open("prog.c", "w").write('#include <stdio.h>\nint main(void) { puts("compiled"); }\n')
env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/dev/shm/w", "LANG": "C.UTF-8",
       "TMPDIR": "/dev/shm/w/tmp", "SOURCE_DATE_EPOCH": "0", "TERM": "dumb"}
def outcome(line):
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60,
                          env=env, stdin=subprocess.DEVNULL)
    return [done.returncode, done.stdout, done.stderr]
print(json.dumps([outcome(line) for line in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def filtered() -> list[Any]:
    """What came of every line, with the filter of an ordinary box."""
    return run(seccomp.filter_bytes(nested_userns=False, unix="box"))


@pytest.fixture(scope="module")
def bare() -> list[Any]:
    """The same in the same box without it."""
    return run(None)


def run(code: bytes | None) -> list[Any]:
    outcomes: list[Any] = json.loads(
        run_in_box([sys.executable, "-ISc", DRIVER], code, json.dumps(LINES))
    )
    return outcomes


def test_there_are_a_hundred_programs() -> None:
    """The list is as long as it says, counted by the programs that its lines name first."""
    assert len({line.split()[0] for line in LINES}) >= 100


@pytest.mark.parametrize("at", range(len(LINES)), ids=LINES)
def test_a_program_does_not_notice(filtered: list[Any], bare: list[Any], at: int) -> None:
    """It ends well, and all it says is the same."""
    assert filtered[at][0] == 0, filtered[at]
    assert filtered[at] == bare[at]
