"""Inside a zygote and its workers: import the agent's code once, then serve one request."""

from __future__ import annotations

import inspect
import os
import pickle
import socket
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import TracebackType
from typing import Any, NoReturn

import anyio
import anyio.to_thread

from axonkernel.box import giving_up
from axonkernel.box.frames import ERROR, RESULT, UNCONFINED, Frames
from axonkernel.box.giving_up import Spaces, give_up
from axonkernel.errors import AxonError, ToolError
from axonkernel.kernel import passing
from axonkernel.kernel.core import Core
from axonkernel.kernel.kernel import Kernel
from axonkernel.kernel.origin import Module
from axonkernel.kernel.remote import Audit, Link, Nobody, Outside, WorkerKernel
from axonkernel.kernel.scope import entered

__all__ = ["importing", "prepare"]

_MOST_BYTES = 1 << 40
_NEEDED = ("anyio._backends._asyncio", "encodings.idna", "encodings.ascii", "traceback")

_importing = False


def importing() -> bool:
    """Whether this process imports an agent's code to work for a kernel elsewhere."""
    return _importing


def prepare(given: dict[str, Any]) -> Any:
    """Import the agent's code in a zygote; returns what serves one request in a worker.

    Raises AxonError where the code does not define what it did.
    """
    global _importing
    _importing = True
    for name in _NEEDED:  # once, and not in each worker
        import_module(name)
    spaces = {module.name: _imported(module) for module in given["modules"]}
    finder, _, name = given["finder"].partition(":")
    handler, tools = getattr(import_module(finder), name)(spaces, given["key"])
    missing = [name for name in given["tools"] if name not in tools]
    if missing:
        raise AxonError(
            f"tools that no module of the handler registers: {', '.join(missing)}; import what "
            "registers them in the module that defines the handler, or say confine='mediator'"
        )
    link = Link()
    core = Core(
        given["policies"],
        cwd=given["cwd"],
        audit=Audit(link),
        deciders=(),
        asker=Nobody(),
        launcher=None,
        tools=tools,
        name=given["name"],
        boxed=given["boxed"],
    )
    core.workers = None
    core.mediator = Outside(link, core.mediator)
    return partial(_serve, link, core, handler, given["filter"])


def _imported(module: Module) -> Mapping[str, Any]:
    if not module.file:
        return vars(import_module(module.name))
    loader = SourceFileLoader(module.name, module.file)
    spec = spec_from_loader(module.name, loader)
    assert spec is not None
    made = module_from_spec(spec)
    sys.modules[module.name] = made
    if module.name == passing.MAIN:
        sys.modules["__main__"] = made  # by which name the kernel's process sends its values
    loader.exec_module(made)
    return vars(made)


# -- one request ------------------------------------------------------------------------


def _serve(
    link: Link, core: Core, handler: Any, code: bytes, sock: socket.socket, spaces: Spaces
) -> NoReturn:
    giving_up.prepare(code)
    _warm_up()
    reader = Frames(sock, _MOST_BYTES)
    try:
        _, body = reader.receive()
    except EOFError:
        os._exit(0)  # a spare that was not needed
    kind, answer = _answer(link, core, handler, sock, reader, spaces, pickle.loads(body))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    link.send(kind, answer)
    os._exit(0)


def _warm_up() -> None:
    """Touch now, while nobody waits, what a request touches: memory is copied at first use."""
    anyio.run(_nothing)
    passing.passed_error(ToolError("", ""))


async def _nothing() -> None:
    pass


def _answer(
    link: Link,
    core: Core,
    handler: Any,
    sock: socket.socket,
    reader: Frames,
    spaces: Spaces,
    order: dict[str, Any],
) -> tuple[int, bytes]:
    link.connect(sock, reader)
    try:
        request = pickle.loads(order["request"])
        layers = [core.compiled(name, policy, lazy=True) for name, policy in order["layers"]]
        give_up(order["walls"], spaces)
    except BaseException as error:
        return UNCONFINED, passing.passed_error(error)
    scope = core.base.plus(*layers)
    link.layers = scope.layers
    kernel = object.__new__(WorkerKernel)
    kernel._attach(core, scope, handler, order["posture"])
    try:
        with entered(core, scope):
            value = _handled(kernel, handler, request, order["backend"])
        return RESULT, passing.passed(value)
    except passing.Unpassable as error:
        return ERROR, passing.passed_error(ToolError("request", str(error)))
    except SystemExit as error:
        ended = ToolError("request", f"the handler exited ({error.code})")
        return ERROR, passing.passed_error(ended)
    except BaseException as error:
        return ERROR, passing.passed_error(error.with_traceback(_own(error, handler)))


def _own(error: BaseException, handler: Any) -> TracebackType | None:
    """The traceback from the handler on."""
    trace = error.__traceback__
    code = getattr(handler, "__code__", None)
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    return trace or error.__traceback__


def _handled(kernel: Kernel, handler: Any, request: Any, backend: str) -> Any:
    value = None
    if not inspect.iscoroutinefunction(handler):
        value = handler(kernel, request)
        if not inspect.isawaitable(value):
            return value
    kept: list[Any] = []  # asyncio.run() looks at what its task returns, by repr()

    async def run() -> None:
        kept.append(await (handler(kernel, request) if value is None else value))

    anyio.run(run, backend=backend)
    return kept[0]
