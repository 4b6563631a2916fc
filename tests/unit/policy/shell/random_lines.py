"""Random lines that look like shell: mangled good ones, and heaps of tokens."""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["random_line"]

_TOKENS: Final = [
    *r"""
    a b c evil evil a b x y -n --force A=1 A= A=evil $A "$A" ${A} ${A:-evil} ${A%evil} $(evil)
    "$(evil)" '$(evil)' `evil` "`evil`" <(evil) >(evil) $((1+2)) $((evil)) ((1)) [[ ]] -eq == =~ &&
    || ; ;; ;& | |& & ! ( ) { } $( " ' ` \ $' $" ${ $(( )) (( << <<E <<'E' <<-E <<<x > >> < 2>&1 >&2
    >&- &> >f <f E if then else elif fi for i in do done while until case esac function f() f(){
    {a,evil} {1..3} * ? [ab] ~ ~/x # #evil time coproc select eval . source exec command builtin
    export declare unset read true : echo printf test [ ] += a= a[0]=evil a[$(evil)]= -v no \ \\ $ @
    """.split(),
    "\n", "\n", "\\\n", " \\\n", "\r", "\x0b", "\u00a0", "\u00e9", "\nE\n", "\tE\n",
]  # fmt: skip

_GOOD: Final = [
    "a && b x",
    "a $(b) | c",
    "for i in 1 2; do a $i; done",
    "if a; then b; else c; fi",
    "f() { a; }; f",
    "a <<E\nx $(b)\nE\nc",
    "a <<'E' | b\n$(evil)\nE\nc",
    "a \"x $(b y) z\" 'q' \\; c",
    "case x in a) b;; *) c;; esac",
    "[[ $A == b* ]] && a",
    "A=1 a; b",
    "a $'x\\n' \"$A\"",
    "while no; do a; done",
    "a > f 2>&1 && b < f",
    "{ a; b; } | c",
    "(a; b) & c",
    "a `b`; c",
    "a <(b) >(c)",
    "a #evil\nb",
    "a \\\n b",
    "time a",
    "! a",
    "a {x,y} *.z ~",
    'A=$(a); b "$A"',
    "a \"$(b <<'E'\nevil\nE\n)\" c",
    "((1)); a",
    "a $((1+1))",
    "a '$(evil)' \"\\$(evil)\" \\`evil\\`",
    "i=0; while [[ $i -lt 2 ]]; do i=$((i+1)); a; done",
]


def random_line(random: Random) -> str:
    """A line of some tokens, or one or two good lines with a few changes."""
    if random.random() < 0.35:
        count = random.randint(1, 12)
        return "".join(
            random.choice(_TOKENS) + random.choice((" ", " ", " ", "")) for _ in range(count)
        )
    line = random.choice(_GOOD)
    if random.random() < 0.25:
        line += random.choice(("; ", " && ", "\n", " | ", " ")) + random.choice(_GOOD)
    for _ in range(random.randint(1, 5)):
        line = _changed(line, random)
    return line


def _changed(line: str, random: Random) -> str:
    place, kind = random.randint(0, len(line)), random.random()
    if kind < 0.5:
        token = random.choice(_TOKENS) + random.choice(("", " "))
        return line[:place] + token + line[place:]
    if kind < 0.75:
        return line[:place] + line[place + random.randint(1, 3) :]
    low, high = sorted((place, random.randint(0, len(line))))
    return line[:place] + line[low:high] + line[place:]
