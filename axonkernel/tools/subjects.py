"""What a tool's parameters touch, said by type: ``Annotated[str, ReadPath]``."""

from __future__ import annotations

from typing import Final

from axonkernel.policy.request import SubjectKind

__all__ = [
    "Argv",
    "Host",
    "Plain",
    "ReadPath",
    "Secret",
    "SubjectType",
    "Url",
    "WriteEntry",
    "WritePath",
]


class SubjectType:
    """One kind of subject.

    Arguments:
        kind: what the mediator asks about it; None asks nothing.
        follow: whether a symlink in the last place of a path is resolved.
    """

    def __init__(self, name: str, kind: SubjectKind | None, *, follow: bool = True) -> None:
        self.name = name
        self.kind = kind
        self.follow = follow

    def __repr__(self) -> str:
        return self.name


#: A path the tool reads. The tool gets it absolute, with symlinks resolved.
ReadPath: Final = SubjectType("ReadPath", "read")

#: A path the tool writes, and may read.
WritePath: Final = SubjectType("WritePath", "write")

#: A directory entry the tool makes or removes: a symlink itself, never what it points to.
WriteEntry: Final = SubjectType("WriteEntry", "write", follow=False)

#: A destination the tool connects to, as ``host:port``.
Host: Final = SubjectType("Host", "host")

#: A web address the tool fetches. The tool gets it in its one spelling; rules are asked about
#: its host and port, and patterns are compared with all of it.
Url: Final = SubjectType("Url", "url")

#: The words of a program the tool runs: a list, or a line that needs no shell.
Argv: Final = SubjectType("Argv", "argv")

#: A value that goes to the tool and into no record, prompt or message.
Secret: Final = SubjectType("Secret", "secret")

#: No rule is asked about this parameter, though its name looks as if one should be.
Plain: Final = SubjectType("Plain", None)
