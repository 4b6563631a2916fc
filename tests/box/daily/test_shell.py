"""A day at the shell: pipelines, scripts, and what a shell itself can do."""

from __future__ import annotations

import pytest

from box.daily.session import Day, Work

pytestmark = [pytest.mark.box, pytest.mark.programs, pytest.mark.usefixtures("leftovers")]

POLICY = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = [
  "sh", "bash", "env", "awk", "sed", "sort", "uniq", "find", "xargs", "grep", "rg", "cut", "tr",
  "head", "tail", "wc", "tee", "cat", "ls", "cp", "mv", "rm", "mkdir", "touch", "chmod", "ln",
  "seq", "paste", "join", "comm", "sleep", "timeout", "date", "mktemp", "dirname", "basename",
  "perl", "id", "nproc", "realpath", "printf", "expr", "true", "false", "tac", "nl", "od",
  "stat", "du", "df", "install", "split", "cmp", "sha256sum", "md5sum", "base64", "readlink",
]
"""

LOG = "".join(f"2024-05-0{n % 3 + 1} {('GET', 'POST')[n % 2]} /{n % 5} {n * 7 % 11}\n"
              for n in range(20))  # fmt: skip

WORKS = [
    Work(
        "pipelines over a log",
        """
$ sh -c "cut -d' ' -f2 log | sort | uniq -c | awk '{print $2, $1}' | tr A-Z a-z"
get 10
post 10
$ sh -c "grep -c GET log; sed -n '2{s,.*/,,;p}' log; tail -n +19 log | head -1 | wc -w"
10
1 7
4
$ sh -c "awk '{s[$1] += $4} END {for (d in s) print d, s[d]}' log | sort -k2nr | tac | nl -w1"
1	2024-05-03 25
2	2024-05-02 28
3	2024-05-01 45
$ sh -c "seq 5 | paste -sd+ - | xargs -I{} expr 2 '*' 3"
6
$ sh -c "seq 3 | tee copy > /dev/null; join copy copy"
1
2
3
""",
        {"log": LOG},
    ),
    Work(
        "find, xargs and rg over a tree",
        """
$ find . -name c* -size -2 -o -type d -name deep
./src/deep
./src/deep/c.txt
$ sh -c "find src -type f -print0 | sort -z | xargs -0 -n1 basename"
a b.txt
c.txt
$ find src -name c.txt -exec cp {} copy ;
$ cat copy
needle
$ rg --no-heading -n needle src
src/deep/c.txt:1:needle
$ grep -rl needle src
src/deep/c.txt
$ find src -type f -delete
$ find src -type f
""",
        {"old": "", "src/deep/c.txt": "needle\n", "src/a b.txt": "hay\n"},
    ),
    Work(
        "a script with a shell behind its shebang",
        """
$ ./tool.sh a 'b c'
2 args, last is b c, in ...
$ ./bash.sh
3 items, third
$ ./env.sh
by env
$ ./options.sh
one:two
""",
        {
            "tool.sh": '#!/bin/sh\nset -eu\necho "$# args, last is $2, in $(dirname "$0")"\n',
            "bash.sh": '#!/bin/bash\na=(first second third)\necho "${#a[@]} items, ${a[2]}"\n',
            "env.sh": "#!/usr/bin/env bash\necho by env\n",
            "options.sh": "#!/usr/bin/env -S A=one bash\necho $A:two\n",
        },
    ),
    Work(
        "what bash can do",
        """
$ bash bash.sh
same
here 3
a-b
Y is set
45
caught 3
trap
job 7
coproc up
""",
        {
            "bash.sh": r"""
set -euo pipefail
diff() { [ "$(cat "$1")" = "$(cat "$2")" ] && echo same; }
diff <(echo x) <(echo x)
cat <<HERE
here $((1 + 2))
HERE
declare -A m=([a]=b); for k in "${!m[@]}"; do echo "$k-${m[$k]}"; done
export X=Y; bash -c 'echo "$X is set"'
s=0; for ((i = 0; i < 10; i++)); do ((s += i)) || true; done; echo $s
(exit 3) || echo caught $?
(trap 'echo trap' EXIT)
(sleep 0.01; exit 7) & wait $! || echo job $?
coproc { read -r line; echo "coproc $line"; }
exec 7<&"${COPROC[0]}"; echo up >&"${COPROC[1]}"; read -r said <&7; echo "$said"
"""
        },
    ),
    Work(
        "redirections, fifos and devices",
        """
$ bash dev.sh
0
err
4
through
urandom 8
no tty
""",
        {
            "dev.sh": "wc -c < /dev/null\n{ echo err >&2; } 2>&1\n"
            "head -c 4 /dev/zero | wc -c\n"
            "mktemp -u fifo.XXXX >/dev/null; perl -MPOSIX -e 'mkfifo(\"p\", 0600)'\n"
            "echo through > p & cat p\n"
            "echo urandom $(head -c 8 /dev/urandom | wc -c)\n"
            "(: < /dev/tty) 2>/dev/null || echo no tty\n"
        },
    ),
    Work(
        "files: copies, links, modes, sums",
        """
$ sh files.sh
600
target -> a
same
90a3...  a
YWJjCg==
3 abc
""",
        {
            "files.sh": "printf 'abc\\n' > a; cp -p a b; chmod 600 b; stat -c %a b\n"
            "ln -s a target; echo target '->' $(readlink target); ln a hard; mv hard h2\n"
            "cmp a h2 && echo same\nprintf x > s; printf x | sha256sum > /dev/null\n"
            "printf 'abc\\n' | md5sum | sed 's/^0bee.*/90a3...  a/'\n"
            "base64 a; mkdir -p d/e; install -m 755 a d/e; split -b 2 a part\n"
            'echo $(ls part* d/e | wc -w | sed s/.*/3/) "$(cat parta*)"\n'
            "touch -d 2020-01-01 a; rm -rf d part* s\n"
        },
    ),
    Work(
        "time limits and sizes",
        """
$ timeout 0.05 sleep 20
[124]
$ sh -c "du -s . >/dev/null && df . >/dev/null && nproc >/dev/null && id -u >/dev/null"
$ date -d 2024-01-02 +%A
Tuesday
$ sh -c "exit 41"
[41]
$ sh -c "kill -TERM $$"
[-15]
""",
    ),
    Work(
        "perl",
        r"""
$ perl -ne 'print if /b/' words
b
$ perl -i.bak -pe 's/a/A/' words
$ cat words
A
b
$ perl -MList::Util=sum -MJSON::PP -MData::Dumper -e 'print encode_json({n => sum(1..4)}), "\n"'
{"n":10}
$ perl -MFile::Temp=tempfile -MTime::Local -MPOSIX -e 'tempfile(); print floor(2.5), "\n"'
2
$ perl -MIO::Socket::INET -e '
> my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1");
> print $server ? "up\n" : "$!\n"'
up
""",
        {"words": "a\nb\n"},
    ),
]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.title)
def test_shell(day: Day, work: Work) -> None:
    """The session goes as it would outside."""
    day.check(POLICY, WORKS, work)
