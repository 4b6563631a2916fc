"""Random sed and awk programs, really run: a file that appears was foreseen.

Those in which nothing was found are run on a small file. Their pieces write or make only ``M``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from axonkernel.policy.profiles.scripts import Script
from axonkernel.policy.profiles.scripts.awk import awk_script
from axonkernel.policy.profiles.scripts.sed import sed_script

pytestmark = pytest.mark.programs

SED = (
    *"/ / / s y ; } { [ ! = , & ( ) D G h F z v T a i c x 1 $ I M g p n N b t l e e".split(),
    "w M", "w M\n", "e touch M", "\n", "[^", "[/]", "[]/]", "[[:alpha:]]", "[[.", "\\", "\\/",
    "\\n", "a\\", "a\\\n", "i\\", "c\\", "1,2", ":a", "b a", "#", "#n", "q", "Q1", "r f", "|", "s,",
    "\\,", "\\|", "a,b,", "0~2", "+1", "~4", "}e", " ", "\t", "\r", "\f", "/e", "/w M", "/gew M",
    "\\1", "\\\n", "s/a/b/", "/t/", "y/a/b/", "s|t|u|", "\\c", "\\[", "[\\]", "[\\/", "w\\", "wM",
    "/I", "1!", "{p", "}p",
)  # fmt: skip
SED_ENDS = (";w M", "\nw M", "\ne touch M", ";e", "")
AWK = (
    *"{ } | |& > >> ; ( ) / / x 1 2 == = + - ++ in [ ] # ! ~ !~ && || ? : , /= // @ %".split(),
    'system("touch M")', "print ", "printf ", '"touch M"', "getline ", '"M"', " ", "\n", "/re/",
    "/[/]/", '/"/', '"/"', '"', '\\"', "\\", "\\/", "$1", "a[1]", "if(1)", "else ", "while(0)",
    "return ", "function f(a)", "f(1)", "f (1)", 'close("M")', "/ 2", "x/2", "length ",
    "getline < ", '"f"', "exit ", "END", "line ", "$", '"a" "b"', "split(x,a,/;/)",
    'sub(/a/,"b")', "{print $1}", "case ", "default", "delete a", "\r", '"\\\n"', "/\\//", "NF",
    'sprintf("%s")', 'print > "M"', 'print >"M" ".x"',
)  # fmt: skip
AWK_ENDS = (' {print > "M"}', "}", "")


def _run(
    folder: Path,
    command: tuple[str, ...],
    read: Callable[[str], Script],
    made: Callable[[Random], str],
    random: Random,
    count: int,
) -> None:
    ran = 0
    (folder / "f").write_text("touch M\ntouch M\nabc/x\n")
    for _ in range(count):
        text = made(random)
        found = read(text)
        if found.hazards or any(write for _, _, write in found.files):
            continue
        try:
            done = subprocess.run(
                [*command, text, "f"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=5,
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue  # a loop; it wrote nothing, or the next check sees it
        ran += done.returncode == 0
        assert [path.name for path in folder.iterdir()] == ["f"], text
    assert ran > count // 30, "hardly any program was run"


def _sed(random: Random) -> str:
    return "".join(random.choices(SED, k=random.randint(1, 9))) + random.choice(SED_ENDS)


def _awk(random: Random) -> str:
    text = "".join(random.choices(AWK, k=random.randint(1, 8))) + random.choice(AWK_ENDS)
    return random.choice(("", "BEGIN{", "/a/{")) + text


def _both(folder: Path, seed: int, count: int) -> None:
    for name in ("sed", "awk"):
        (folder / name).mkdir()
    _run(folder / "sed", ("sed", "-n"), sed_script, _sed, Random(seed), count)
    _run(folder / "awk", ("awk",), awk_script, _awk, Random(seed), count)


def test_what_random_scripts_write_was_foreseen(tmp_path: Path) -> None:
    """2,000 of each."""
    _both(tmp_path, seed=5, count=2_000)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.timeout(1_200)
def test_what_many_random_scripts_write_was_foreseen(tmp_path: Path, seed: int) -> None:
    """100,000 of each."""
    _both(tmp_path, seed=100 + seed, count=10_000)
