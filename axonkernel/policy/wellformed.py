"""Requests that are not judged at all: malformed ones, and those beyond the caps."""

from __future__ import annotations

from axonkernel.policy.request import Decision, ProcessRequest, ToolRequest

__all__ = [
    "LONGEST_PATH",
    "MOST_TEXT",
    "argv_fault",
    "malformed",
    "malformed_name",
    "too_complex",
    "tool_fault",
]

#: Caps on what is analysed (DESIGN 5); beyond them a request is denied, in bounded time.
MOST_WORDS = 10_000
MOST_TEXT = 1 << 20
DEEPEST = 200
#: Longer than any path a system call takes (PATH_MAX is 4096).
LONGEST_PATH = 16_384


def malformed_name(name: str) -> bool:
    """Whether no environment can hold a variable of that name."""
    return not name or "=" in name or "\0" in name


def malformed(subject: str, detail: str) -> Decision:
    """The denial of a request that is not well formed."""
    return Decision("deny", "request.malformed", "builtin", "builtin", subject, detail)


def too_complex(detail: str) -> Decision:
    """The denial of a request that is too large to analyse."""
    return Decision("deny", "request.too_complex", "builtin:caps", "builtin", "", detail)


def argv_fault(request: ProcessRequest) -> Decision | None:
    """The denial of a list of words no program can be started with, or None."""
    argv = request.argv
    if not argv or not argv[0]:
        return malformed("", "no program is named")
    if len(argv) > MOST_WORDS or len(request.env) > MOST_WORDS:
        return too_complex(f"{len(argv)} words")
    text = "".join(argv)
    if len(text) > MOST_TEXT or len(argv[0]) > LONGEST_PATH:
        return too_complex(f"{len(text)} characters")
    if request.env and any(map(malformed_name, request.env)):
        return malformed(argv[0], "a name that no environment can hold")
    if "\0" in f"{text}{request.cwd}{request.resolved}" or not request.cwd.startswith("/"):
        return malformed(argv[0], "a NUL byte, or a working directory that is not absolute")
    return None


def tool_fault(request: ToolRequest) -> Decision | None:
    """The denial of a tool call with a NUL, or too large or deep to analyse; or None."""
    args = request.args
    if len(args) > MOST_TEXT or len(request.name) > LONGEST_PATH:
        return too_complex(f"{len(args)} characters of arguments")
    if args.count("[") + args.count("{") > DEEPEST and _depth(args) > DEEPEST:
        return too_complex(f"arguments nested deeper than {DEEPEST}")
    # JSON spells NUL as an escape; an escaped backslash in front is not one.
    if "\0" in request.name or "\0" in args or "\\u0000" in args.replace("\\\\", ""):
        return malformed(request.name.replace("\0", ""), "a NUL byte")
    return None


def _depth(text: str) -> int:
    """How deep JSON text nests."""
    deepest = depth = 0
    quoted = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not quoted and character in "]}":
            depth -= 1
    return deepest
