"""Program texts of sed, awk and sqlite3: what is seen in them."""

from __future__ import annotations

import pytest

from axonkernel.policy.profiles.scripts import Script
from axonkernel.policy.profiles.scripts.awk import awk_script
from axonkernel.policy.profiles.scripts.sed import sed_script
from axonkernel.policy.profiles.scripts.sql import sql_script


def names(script: Script) -> list[str]:
    return [name for name, _ in script.hazards]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p",
        "1p",
        "$p",
        "1,5p",
        "/a/,/b/p",
        "1~2d",
        "/a/,+3d",
        "0,/x/Id",
        "2q",
        "q5",
        "$!N;P;D",
        "s/a/b/",
        "s/a/b/gI",
        "s|a|b|2p",
        "s/[]/]/x/",
        "s/[^]/]/x/",
        "s/[[:space:]/]*$//",
        "y/abc/xyz/",
        "s/a\\/b/c/",
        "/a/{s/b/c/;p}",
        ":a;N;$!ba;s/\\n/ /g",
        "1i\\\nhello e",
        "$a e w r",
        "2c x",
        "=;l 5",
        "# e id",
        "p # e",
        "/e/!d",
        "\\|e|p",
        "s/e/w/",
        "G;h;x;n",
        "b end;p;:end",
        "t;T",
        "s/$/e/",
        "z;F",
        "s/x/\\\ny/",
        "1!G;h;$!d",
        "s/\\(.*\\)@\\(.*\\)/\\2/",
        "N;N;s/\\n/,/g",
        "/start/,/end/{//!d}",
    ],
)
def test_harmless_sed_scripts(text: str) -> None:
    """What people write every day is read and found harmless."""
    assert sed_script(text) == Script()


@pytest.mark.parametrize(
    "text",
    [
        "e",
        "1e",
        "e id",
        "{e",
        "p;e",
        "p\ne",
        "/x/e",
        "$!e",
        "1,2e id",
        "/[/]/e",
        "s/a/b/e",
        "s/a/b/pe",
        "s/a/b/e2",
        "s,a,b,Ie",
        "y/a/b/\ne",
        "a x\ne",
        "1i\\\nx\\\ny\ne",
        "b x e",
        ":x e",
        "}e",
        "s/\\//x/;e",
        "s/[\\/]/x/;e",
        "\\exee",
        "!!e",
        "# c\ne",
        "s/a/\\\n/;e",
        "1,/x/!{e",
    ],
)
def test_sed_scripts_that_run_programs(text: str) -> None:
    """``e`` wherever a command can stand."""
    assert "e" in names(sed_script(text))


@pytest.mark.parametrize(
    "text",
    [
        *("s/a", "s/a/b", "k", "s/a/b/k", "s/[/x/", "y/a/b", "/a", "\\", "s\na\nb\n"),
        # GNU sed reads labels on where others end them, so that text becomes a command.
        *("t\rc\\a\\\nw M", "b x\rc\\g;w M", ":a\fp", "v1\vp"),
    ],
)
def test_sed_scripts_that_cannot_be_read(text: str) -> None:
    """Not understood is not harmless."""
    assert names(sed_script(text)) == ["script"]


def test_files_of_sed_scripts() -> None:
    """To the end of their line, whatever is in it."""
    assert sed_script("r a;p").files == (("r", "a;p", False),)
    assert sed_script("w a b }\np").files == (("w", "a b }", True),)
    assert sed_script("s/a/b/gw c;d").files == (("w", "c;d", True),)
    assert sed_script("w /dev/stderr").files == ()


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "{print}",
        "{print $1, $NF}",
        "/a/",
        "!/a/",
        "/a|b/{n++} END{print n}",
        "NR==1||NR>5",
        "$1>5",
        '{print "a|b > c"}',
        "{print (a > b)}",
        "{print a/b/c}",
        "{x=$1/2; y=(a+b)/2; print x/y}",
        "/[|]/",
        "/[[:alpha:]]|\\//",
        '{gsub(/[>|]/, ""); print}',
        "BEGIN{while(i++<9)print i}",
        "{getline; print}",
        "{getline x; print x}",
        '{print > "/dev/stderr"}',
        '{printf "%s|%s\\n", $1, $2}',
        "function f(a) { return a/2 } {print f($1)}",
        "{if (/a|b/) print; else print $2/2}",
        "# | x\n1",
        "{a[$1]+=$2/3} END{for(k in a) print k, a[k]}",
        "$1 ~ /@x|y/",
        "{print length / 2}",
        'BEGIN{OFS="|"} {$1=$1}1',
        "{ print $(NF-1) / $NF }",
        "{x = y ? /a|b/ : 2}",
    ],
)
def test_harmless_awk_programs(text: str) -> None:
    """Comparisons, divisions, expressions and strings with signs in them."""
    assert awk_script(text) == Script()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('BEGIN{system("id")}', "system"),
        ('BEGIN{1system("id")}', "system"),
        ("{x=system(\n$1)}", "system"),
        ('/"/ {system("id")} /"/', "system"),
        ("{system\\\n($0)}", "system"),
        ('{print|"sh"}', "|"),
        ('{print $1/2 | "sh"}', "|"),
        ('/"/{print | "sh"} /"/', "|"),
        ('"id"|getline', "|"),
        ('BEGIN{"id" |& getline x}', "|"),
        ('{if (x) /"/; print | "sh"; /"/}', "|"),
        ("{print | cmd}", "|"),
        ('{while (x) /"/; "id" | getline}', "|"),
        ('{return /"/; "id" | getline; /"/}', "|"),
        ('{f(x) /2; print | "sh"; 1/2}', "|"),
        ('@load "x"', "@"),
        ("{@f()}", "@"),
        ('@include "x"\n1', "@"),
        ('/[/"]/ {print | "sh"} #"', "script"),
        ('{print "a', "script"),
        ("/a", "script"),
        ("/a\n/", "script"),
        ('{getline /"/; "id" | getline}', "script"),
        ("{x = \\y}", "script"),
        ("/[/", "script"),
    ],
)
def test_awk_programs_that_run_programs(text: str, name: str) -> None:
    """Seen behind strings and expressions that try to hide it, or not readable."""
    assert name in names(awk_script(text))


def test_files_of_awk_programs() -> None:
    """A name is known when it is one string; any other is computed."""
    assert awk_script('{print > "a"}').files == ((">", "a", True),)
    assert awk_script('{print $1, $2 >> "a"; x}').files == ((">", "a", True),)
    assert awk_script('{print > "a" ".b"}').files == ((">", None, True),)
    assert awk_script('{print > "a\\x2fb"}').files == ((">", None, True),)
    assert awk_script("{print > $1}").files == ((">", None, True),)
    assert awk_script('{while ((getline l < "a") > 0) n++}').files == (("getline", "a", False),)
    assert awk_script("{getline l < f}").files == (("getline", None, False),)
    assert awk_script('BEGIN{ARGV[1]="x"}').files == (("ARGV", None, False),)


@pytest.mark.parametrize(
    "text", ["select 1", ".tables", ".mode csv\nselect 1;", "select '.shell'", ""]
)
def test_harmless_sql(text: str) -> None:
    """Looking and formatting."""
    assert sql_script(text) == Script()


@pytest.mark.parametrize(
    "text",
    [
        ".shell id",
        ".sh id",
        ".system id",
        "select 1;\n.once |id",
        "  .read x",
        ".load x",
        ".import |id t",
        "select LOAD_EXTENSION('x')",
        'select "load_extension"(x)',
        "select edit(x)",
        ".open x",
        ".output x",
    ],
)
def test_sql_that_runs_or_opens(text: str) -> None:
    """Any dot command that is not known to be harmless, and functions that load code."""
    assert names(sql_script(text))


def test_a_long_text_is_read_in_bounded_time() -> None:
    """No pattern goes back and forth over it."""
    for text in (
        "/" + "[[:a:]" * 20_000,
        "/" + "[^]a" * 20_000,
        '"' + "\\a" * 50_000,
        "(" * 50_000,
    ):
        assert awk_script(text) == awk_script(text)
    for text in ("s/" + "[[:a:]" * 20_000, "{" * 100_000, "/" + "a\\/" * 50_000):
        assert sed_script(text) == sed_script(text)
