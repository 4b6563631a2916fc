"""What the typed subjects of a tool call ask of the other blocks."""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.policy.request import (
    AnyRequest,
    ConnectRequest,
    PathRequest,
    ProcessRequest,
    Request,
    ShellRequest,
    Subject,
)
from axonkernel.policy.url import parse_url

__all__ = ["subject_requests"]


def subject_requests(subjects: tuple[Subject, ...]) -> Iterator[AnyRequest]:
    """What a tool's typed subjects ask of the other blocks."""
    for subject in subjects:
        value = subject.value
        if subject.kind == "argv":
            yield ShellRequest(value) if isinstance(value, str) else ProcessRequest(value)
        elif isinstance(value, str) and subject.kind in ("read", "write"):
            yield PathRequest(value, write=subject.kind == "write")
        elif isinstance(value, str) and subject.kind == "host":
            yield Request.connect(value)
        elif isinstance(value, str) and subject.kind == "url":
            yield _url_request(value)


def _url_request(text: str) -> ConnectRequest:
    """What a URL connects to; one that is not well formed keeps a port that nothing allows."""
    try:
        url = parse_url(text)
    except ValueError:
        return ConnectRequest(text, 0)
    return ConnectRequest(url.host, url.port)
