"""Hazards of the table are no folklore: the real programs run or write what is denied.

Each case runs a program of this machine twice: as a line that the policy refuses, which leaves
a marker, and as its allowed twin, which leaves none.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from axonkernel.policy.decide import compile
from axonkernel.policy.parse import parse
from axonkernel.policy.request import Request

pytestmark = pytest.mark.programs

RULES = compile(parse({"shell": {"allow": True}}))


class Case(NamedTuple):
    """A refused line and its allowed twin; ``@P`` is a program that leaves the marker."""

    refused: tuple[str, ...]
    twin: tuple[str, ...]


def case(refused: str, twin: str) -> Case:
    return Case(tuple(shlex.split(refused)), tuple(shlex.split(twin)))


RUNS = [
    case("git -c core.fsmonitor=@P status", "git status"),
    case("git -c alias.x=!@P x", "git log"),
    case("git --config-env=core.fsmonitor=P status", "git --no-pager status"),
    case("git grep -iO@P hello", "git grep -in hello"),
    case("git grep --open-files=@P hello", "git grep --name-only hello"),
    case("git ls-remote --upload-pa=@P .", "git ls-remote --heads ."),
    case("git clone -qu @P . c", "git clone -q . d"),
    case("git push --receive @P . HEAD:x", "git push -n . HEAD:x"),
    case("git -c protocol.ext.allow=always fetch 'ext::@P'", "git fetch ."),
    case("git rebase -x@P HEAD~1", "git rebase HEAD~1"),
    case("git rebase --exe @P HEAD~1", "git rebase --onto HEAD~1 HEAD~1"),
    case("git archive --remote=. --exec=@P HEAD", "git archive HEAD"),
    case("find . -maxdepth 0 -exec @P ';'", "find . -maxdepth 0 -print"),
    case("find . -maxdepth 0 '(' -execdir @P {} + ')'", "find . -maxdepth 0 '(' -print0 ')'"),
    case("env A=1 timeout 5 find . -maxdepth 0 -exec @P ';'", "env A=1 timeout 5 find ."),
    case("tar -cf - big --checkpoint=1 --checkpoint-action=exec=@P", "tar -cf - big --checkpoint"),
    case("tar cf - big --checkpoint=1 --checkpoint-a exec=@P", "tar cf - big"),
    case("tar -xf words.tar --to-command=@P", "tar -tf words.tar"),
    case("tar xf words.tar --to-c @P", "tar tf words.tar"),
    case("tar -tI@P -f words.tar", "tar -tif words.tar"),
    case("tar tIf @P words.tar", "tar tvf words.tar"),
    case("tar cLf 20 x.tar -MF@P big", "tar tf words.tar"),
    case("sort -S1k --comp @P big", "sort -S1k big"),
    case("sort big -S1k --compress-pr=@P", "sort big -S1k -- words"),
    case("sed '1e @P' words", "sed '1a @P' words"),
    case("sed 's,.*,@P,e' words", "sed 's,.*,@P,g' words"),
    case("sed -n 'p;s,[,]*$,@P,;s,.*,@P,Ig;1e @P' words", "sed -n 's,[,]*$,@P,p' words"),
    case("awk 'BEGIN{system(\"@P\")}'", "awk 'BEGIN{print \"@P\"}'"),
    case("awk '{print | \"@P\"}' words", "awk '{print \"| @P\"}' words"),
    case("awk 'BEGIN{\"@P\"|getline x}'", "awk '{getline x}' words"),
    case("awk '/\"/ {} BEGIN {\"@P\" | getline x} /\"/' words", "awk '/\"/ {print} /\"/' words"),
    case("awk '$1/2 {} BEGIN {\"@P\" | getline x} 1/2' words", "awk '$1/2 {print} 1/2' words"),
    case("ssh -oproxycommand=@P nowhere.invalid", "ssh -V"),
    case("ssh nowhere.invalid -o 'PROXYCOMMAND @P'", "ssh -V"),
    case("ssh -o '\"ProxyCommand\" @P' nowhere.invalid", "ssh -V"),
    case("scp -S@P words nowhere.invalid:x", "scp words copy"),
    case("rsync -ae@P words nowhere.invalid:x", "rsync -a words copy"),
    case("rsync -a --rsh @P words nowhere.invalid:x", "rsync -a words copy"),
    case("zip -q w.zip words -T -TT @P", "zip -q w.zip words -T"),
    case("zip -TqTT @P w.zip words", "zip -Tq w.zip words"),
    case("rg --pre=@P hello words", "rg hello words"),
    case("make --eval=x:\\;@P x", "make -v"),
    case("make -f /dev/null -E '$(shell @P)'", "make -v"),
    case("make -C sub SHELL=@P", "make -C sub -n"),
    case("sqlite3 d '.shell @P'", "sqlite3 d 'select 1'"),
    case("sqlite3 d '.sys @P'", "sqlite3 d .show"),
    case("sqlite3 -cmd '.shell @P' d 'select 1'", "sqlite3 -cmd '.mode csv' d 'select 1'"),
    case("vim -es '+!@P' +q words", "vim --version"),
    case("vim -es '+/h/!@P' +q! words", "vim --version"),
    case("vim -es --cmd '!@P' -cq words", "vim --version"),
    case("npm exec --offline -c @P", "npm -v"),
    case("gcc -wrapper @P -c x.c", "gcc -fsyntax-only x.c"),
    case("gcc -B./tools/ -c x.c", "gcc -fsyntax-only x.c"),
    case("gcc --prefix=./tools/ -c x.c", "gcc -fsyntax-only x.c"),
    case("gcc @args -c x.c", "gcc -fsyntax-only x.c"),
]  # fmt: skip

WRITES = [
    case("git diff --output=MARK HEAD~1", "git diff --stat HEAD~1"),
    case("git diff --output MARK HEAD~1", "git diff HEAD~1"),
    case("git log --output MARK", "git log --oneline"),
    case("git archive -oMARK HEAD", "git archive HEAD"),
    case("sort -uo MARK words", "sort -u words"),
    case("sort -oMARK words", "sort words"),
    case("sort words --out=MARK", "sort words -n"),
    case("find . -fprintf MARK %p", "find . -printf %p"),
    case("tar cfz MARK words", "tar cz words"),
    case("sed 'w MARK' words", "sed p words"),
    case("sed -n 's/h/j/gw MARK' words", "sed -n 's/h/j/gp' words"),
    case("awk '{print > \"MARK\"}' words", "awk '{print ($1 > \"MARK\")}' words"),
    case("curl -sKconfig file:///dev/null", "curl -s file:///dev/null"),
    case("curl -soMARK FILE:/dev/null", "curl -s FILE:/dev/null"),
    case("curl -s --output MARK file:///etc/hostname", "curl -s file:///etc/hostname"),
    case("dd status=none if=words of=MARK", "dd status=none if=words"),
    case("sqlite3 d \"select writefile('MARK', 'x')\"", "sqlite3 d \"select 'x'\""),
    case("sqlite3 d '.once MARK' 'select 1'", "sqlite3 d 'select 1'"),
    case("sqlite3 d \"vacuum into 'MARK'\"", "sqlite3 d vacuum"),
    case("wget -qo MARK http://127.0.0.1:1/", "wget --version"),
]  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bit of everything: a repository, an archive, a makefile."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "words").write_text("hello\nworld\n" * 40)
    (folder / "big").write_text("".join(f"{n * 7919 % 10007}\n" for n in range(20_000)))
    (folder / "page.1").write_text(".TH x 1\n.SH NAME\nx\n")
    (folder / "x.c").write_text("int x;\n")
    (folder / "sub").mkdir()
    (folder / "sub/Makefile").write_text("all:\n\techo one; echo two\n")
    (folder / "args").write_text("-wrapper ./tools/cc1\n")
    (folder / "config").write_text('output = "MARK"\n')
    subprocess.run(["tar", "cf", "words.tar", "words"], cwd=folder, check=True)
    _git(folder, "init", "-q", "-b", "main")
    for name in ("one", "two"):
        (folder / name).write_text(name)
        _git(folder, "add", "words", "sub", name)
        _git(folder, "commit", "-qm", name)
    return folder


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, env=_environment(folder))


def _environment(folder: Path) -> dict[str, str]:
    me = {f"GIT_{who}_{what}": "me@example.test" for who in ("AUTHOR", "COMMITTER")
          for what in ("NAME", "EMAIL")}  # fmt: skip
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **me}


def _run(folder: Path, words: tuple[str, ...], program: Path) -> bool:
    """Whether the marker is there after a run of ``words`` in a copy of the folder."""
    marker = folder / "MARK"
    argv = [word.replace("@P", str(program)) for word in words]
    subprocess.run(
        argv,
        cwd=folder,
        env={**_environment(folder), "P": str(program)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=30,
        check=False,
    )
    return marker.exists()


@pytest.fixture
def folder(repository: Path, tmp_path: Path) -> Path:
    """A copy of the folder for one run, with the program that leaves the marker."""
    copy = tmp_path / "r"
    shutil.copytree(repository, copy, symlinks=True)
    tools = copy / "tools"
    tools.mkdir()
    program = tools / "cc1"
    program.write_text(f"#!/bin/sh\n: > {copy}/MARK\n")
    program.chmod(0o755)
    return copy


@pytest.mark.parametrize("each", [*RUNS, *WRITES], ids=lambda each: " ".join(each.refused)[:60])
def test_the_refused_line_would_have_run_or_written(each: Case, folder: Path) -> None:
    """The marker appears; with the twin it does not; the policy tells them apart."""
    program = folder / "tools/cc1"
    decision = RULES.decide(Request.process(each.refused, cwd=str(folder)))
    assert (decision.verdict, decision.code) == ("deny", "shell.hazard"), decision
    assert RULES.decide(Request.process(each.twin, cwd=str(folder))).verdict == "allow"
    assert not _run(folder, each.twin, program)
    assert _run(folder, each.refused, program)
