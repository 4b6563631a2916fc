"""A web service that runs an agent for many users, each within what is theirs.

    uvicorn app:app          (pip install axonkernel starlette uvicorn)
    curl -H 'X-User: alice' 'localhost:8000/words?file=data/alice/notes.txt'

One kernel serves all requests. Each request is narrowed to its user's folder, by value: two
that run at the same time do not see each other's policy, and nothing can widen one again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from axonkernel import Kernel, PolicyDenied, ToolError, define_agent

USERS = ("alice", "bob")

agent = define_agent(
    "words",
    {
        "default": "deny",
        "fs": {"read": ["./data"]},
        "shell": {"allow": ["wc"]},
        "tools": {"fs": {"read": True}},
    },
)


@agent.handler
async def answer(kernel: Kernel, request: dict[str, str]) -> dict[str, Any]:
    """What an agent would do with a question: read, and run a program."""
    text = await kernel.call("fs.read", path=request["file"])
    counted = await kernel.process.run(["wc", "-w", request["file"]])
    return {"begins": text[:20], "words": int(counted.text.split()[0])}


def allowed(user: str) -> dict[str, Any]:
    """What one request may do; it can only be less than the agent's own policy."""
    if user in USERS:
        return {"fs": {"read": [f"./data/{user}", "./data/public"]}}
    return {"fs": {"read": ["./data/public"]}, "shell": False}


async def words(request: Request) -> JSONResponse:
    """GET /words?file=PATH, for the user of the X-User header."""
    asked = {"file": request.query_params.get("file", "")}
    policy = allowed(request.headers.get("x-user", ""))
    try:
        result = await request.app.state.kernel.request(asked, policy=policy)
    except PolicyDenied as denied:
        return JSONResponse(denied.as_dict(), status_code=403)
    except ToolError as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    return JSONResponse(result)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """One kernel from start to end."""
    async with agent.open() as kernel:
        app.state.kernel = kernel
        yield


app = Starlette(routes=[Route("/words", words)], lifespan=lifespan)
