"""git's options before the subcommand (git(1), OPTIONS, and git.c of git 2.49)."""

from __future__ import annotations

from typing import Final

__all__ = ["GIT_OPTIONS"]

_ALONE = (
    "-v", "--version", "-h", "--help", "--exec-path", "--html-path", "--man-path",
    "--info-path", "-p", "--paginate", "-P", "--no-pager", "--no-replace-objects",
    "--no-lazy-fetch", "--no-optional-locks", "--no-advice", "--bare", "--literal-pathspecs",
    "--no-literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs",
)  # fmt: skip
_WITH_WORD = (
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env",
    "--attr-source", "--shallow-file",
)  # fmt: skip
_JOINED = (
    "--exec-path=", "--git-dir=", "--work-tree=", "--namespace=", "--super-prefix=",
    "--config-env=", "--attr-source=", "--list-cmds=", "--bare=",
)  # fmt: skip

#: Option to the number of words after it.
GIT_OPTIONS: Final = {
    **dict.fromkeys(_ALONE, 0),
    **dict.fromkeys(_WITH_WORD, 1),
    **dict.fromkeys(_JOINED, 0),
}
