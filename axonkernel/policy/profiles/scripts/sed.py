"""sed scripts: ``e`` and ``s///e`` run programs, ``r R w W`` and ``s///w`` open files."""

from __future__ import annotations

from axonkernel.policy.profiles.scripts import Script

__all__ = ["sed_script"]

_RUNS = "runs a program"
_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/stdin")
#: Commands without any argument.
_PLAIN = frozenset("=dDgGhHnNpPxzF")
_BLANK = " \t\n;\r\v\f"
#: GNU sed skips these in front of a label and takes them for a part of it further on.
_ODD_BLANKS = frozenset("\r\v\f")


def sed_script(text: str) -> Script:
    """What a sed script runs and opens (GNU sed 4.9; also POSIX sed)."""
    reader = _Reader(text)
    try:
        reader.read()
    except _Unreadable as fault:
        reader.hazards.append(("script", f"a sed script that cannot be read: {fault}"))
    return Script(tuple(reader.hazards), tuple(reader.files))


class _Unreadable(ValueError):
    pass


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.hazards: list[tuple[str, str]] = []
        self.files: list[tuple[str, str | None, bool]] = []

    def read(self) -> None:
        while True:
            self._skip(_BLANK + "{}")
            if not self._peek():
                return
            self._addresses()
            self._command()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise _Unreadable("it ends early")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, characters: str) -> None:
        while self._peek() and self._peek() in characters:
            self._at += 1

    def _line(self) -> str:
        """The rest of the line; a name of a file has no continuation."""
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        line, self._at = self._text[self._at : end], end
        return line

    def _addresses(self) -> None:
        while True:
            self._skip(" \t,+~!0123456789$")
            if self._peek() == "/":
                self._next()
            elif self._peek() == "\\":
                self._at += 1
                self._between(self._next())
                self._skip("IM")
                continue
            else:
                return
            self._between("/")
            self._skip("IM")

    def _between(self, mark: str) -> None:
        """A regular expression up to ``mark``.

        A mark inside brackets is an ordinary character: a sed that takes it for the end has
        an open bracket there, and refuses the script.
        """
        if mark in "\n\\":
            raise _Unreadable("an odd delimiter")
        while (character := self._next()) != mark:
            if character == "\\":
                self._next()
            elif character == "[":
                self._brackets(mark)
            elif character == "\n":
                raise _Unreadable("a line break in an expression")

    def _brackets(self, mark: str) -> None:
        if self._peek() == "^":
            self._next()
        if self._peek() == "]":
            self._next()
        while (character := self._next()) != "]":
            if character == "\n":
                raise _Unreadable("a line break in an expression")
            if character == "\\" and self._peek() == mark:
                self._next()
            elif character == "[" and (kind := self._peek()) in (":", ".", "="):
                end = self._text.find(kind + "]", self._at + 1)
                if end < 0 or mark in self._text[self._at : end]:
                    raise _Unreadable("a class without an end")
                self._at = end + 2

    def _replacement(self, mark: str) -> None:
        while (character := self._next()) != mark:
            if character == "\\":
                self._next()

    def _command(self) -> None:
        self._skip(" \t")
        name = self._next()
        if name in _PLAIN or name in "{}":
            return
        if name == "#":
            self._line()
        elif name in "qQlL":
            self._skip(" \t0123456789")
        elif name in ":btTv":
            self._label()
        elif name in "aic":
            self._inserted()
        elif name in "rRwW":
            self._file(name)
        elif name == "e":
            self._line()
            self.hazards.append(("e", _RUNS))
        elif name in "sy":
            self._substitute(name)
        else:
            raise _Unreadable(f"the command {name!r}")

    def _label(self) -> None:
        """A label. Seds differ in what ends one; what follows is read as commands."""
        self._skip(" \t")
        start = self._at
        while self._peek() and self._peek() not in " \t\n;":
            self._at += 1
        if not _ODD_BLANKS.isdisjoint(self._text[start : self._at]):
            raise _Unreadable("an odd blank in a label")

    def _inserted(self) -> None:
        """The text of ``a``, ``i`` and ``c``, to the end of a line without a backslash."""
        while self._peek():
            character = self._next()
            if character == "\\" and self._peek():
                self._next()
            elif character == "\n":
                return

    def _file(self, name: str) -> None:
        self._skip(" \t")
        path = self._line()
        if path not in _STREAMS:
            self.files.append((name, path or None, name in "wW"))

    def _substitute(self, name: str) -> None:
        mark = self._next()
        self._between(mark)
        self._replacement(mark)
        while name == "s" and (flag := self._peek()) and flag not in "\n;}#":
            self._at += 1
            if flag == "w":
                self._file("w")
            elif flag == "e":
                self.hazards.append(("e", _RUNS))
            elif flag not in "gpiImM0123456789 \t\r":
                raise _Unreadable(f"the flag {flag!r}")
