"""Text for the sqlite3 shell: dot commands and the SQL that opens files or loads code."""

from __future__ import annotations

import re

from axonkernel.policy.profiles.scripts import Script

__all__ = ["sql_script"]

#: Dot commands that only look and format. Others are hazards; so are shortened names, since
#: what they stand for depends on the version.
_HARMLESS = frozenset(
    ".bail .changes .databases .dbinfo .dump .echo .eqp .exit .explain .fullschema .headers "
    ".help .indexes .limit .mode .nullvalue .print .quit .schema .separator .sha3sum .show "
    ".stats .tables .timeout .timer .version .width".split()
)
_CODE = re.compile(r"\b(load_extension|edit|fts3_tokenizer)\b", re.IGNORECASE)
_WRITES = re.compile(r"\b(writefile|attach|vacuum\b[^;]*\binto)\b", re.IGNORECASE)
#: A string, which is kept, or a comment, which is nothing.
_COMMENT = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|/\*.*?(?:\*/|\Z)|--[^\n]*", re.DOTALL)
_READS = re.compile(r"\b(readfile|fsdir|zipfile)\b", re.IGNORECASE)


def sql_script(text: str) -> Script:
    """What a line for sqlite3 runs and opens (sqlite3 3.40 and later)."""
    hazards: list[tuple[str, str]] = []
    for line in text.splitlines():
        command = line.strip().split(maxsplit=1)[:1]
        if command and command[0].startswith(".") and command[0] not in _HARMLESS:
            hazards.append((command[0], "runs a program, loads code or opens a file"))
    if match := _CODE.search(text):
        hazards.append((match[1].lower(), "loads code or runs a program"))
    files: list[tuple[str, str | None, bool]] = []
    if match := _WRITES.search(text) or _WRITES.search(_COMMENT.sub(r"\1 ", text)):
        files.append((match[1].split()[0].lower(), None, True))
    if match := _READS.search(text):
        files.append((match[1].lower(), None, False))
    return Script(tuple(hazards), tuple(files))
