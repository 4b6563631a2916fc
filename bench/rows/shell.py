"""Boxes from a shell: each pays for a Python that starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from bench.boxes import BARE, SOMEWHERE, axonkernel
from bench.measure import by_turns, run, timed
from bench.session import Session
from bench.starter import plain_start, starting
from bench.steps import slow_steps
from bench.table import Row

__all__ = ["agent_rows", "exec_rows", "import_rows"]

_PLAIN = """\
import sys
print("reviewed", " ".join(sys.argv[1:]))
"""
_AGENT = """\
from axonkernel import define_agent

agent = define_agent(name="bench", policy={policy})

@agent.handler
async def review(kernel, request):
    return "reviewed " + request["prompt"]

if __name__ == "__main__":
    agent.run()
"""
#: Where additions of this machine's to every start of a Python are hidden (starter.py).
_PLAIN_START = ", a plain start"
_POLICY = {"fs": {"read": ["."]}, "net": {"allow": []}, "shell": {"allow": []}, "env": {}}


def exec_rows(session: Session) -> Iterator[Row]:
    """``axonkernel exec -- true``, without and with a link."""
    rounds = session.rounds(75)
    boxed = [*axonkernel(), "exec", "--", "true"]
    linked = [*axonkernel(), "exec", "--net", SOMEWHERE, "--", "true"]
    steps = {
        "exec": slow_steps(boxed[len(axonkernel()) :], session.rounds(15)),
        "exec, pasta": slow_steps(linked[len(axonkernel()) :], session.rounds(15)),
    }
    starts = {"exec": boxed, "exec, pasta": linked, "python pass": [sys.executable, "-c", "pass"]}
    actions = {"bare": timed(lambda: run(BARE))}
    actions |= {name: timed(partial(run, argv)) for name, argv in starts.items()}
    with plain_start() as worker:
        if worker is not None:
            plain = {f"{name}{_PLAIN_START}": argv for name, argv in starts.items()}
            actions |= {name: starting(worker, argv) for name, argv in plain.items()}
        samples = by_turns(rounds, actions)
    medians = samples.medians
    for name, budget in (("exec", 12.0), ("exec, pasta", 18.0)):
        what = "`axonkernel exec -- true`" + (" with a pasta link" if "," in name else "")
        for where in ("", _PLAIN_START):
            if name + where not in medians:
                continue
            floor = samples.ratio(f"python pass{where}", "bare")
            note = f"{medians[name + where] * 1e3:.1f} ms beside {medians['bare'] * 1e3:.1f} ms; "
            note += f"a Python that does nothing: {floor:.1f}x"
            note += "" if where else f"; steps over 2 ms: {steps[name]}"
            yield Row(f"{what}, beside bare bwrap{where}", samples.ratio(name + where, "bare"),
                      budget=budget, n=rounds, note=note, medians=medians)  # fmt: skip


def agent_rows(session: Session) -> Iterator[Row]:
    """A Python agent in its box, beside a script that does the same with nothing around it."""
    rounds = session.rounds(31)
    folder = session.room("agent")
    files = {
        "plain": _PLAIN,
        "mediated": _AGENT.format(policy={"tools": {"*": True}}),
        "boxed": _AGENT.format(policy=_POLICY),
    }
    paths = {name: folder / f"{name}.py" for name in files}
    for name, text in files.items():
        paths[name].write_text(text)
    starts = {name: [sys.executable, str(path), "a", "b"] for name, path in paths.items()}
    starts["axonkernel run"] = [
        *axonkernel(),
        "run",
        "--agent",
        str(paths["boxed"]),
        "--",
        "a",
        "b",
    ]
    actions = {name: timed(partial(run, argv)) for name, argv in starts.items()}
    with plain_start() as worker:
        if worker is not None:
            plain = {f"{name}{_PLAIN_START}": argv for name, argv in starts.items()}
            actions |= {name: starting(worker, argv) for name, argv in plain.items()}
        samples = by_turns(rounds, actions)
    medians = samples.medians
    for name, what in (("axonkernel run", "axonkernel run"), ("boxed", "python agent.py")):
        for where in ("", _PLAIN_START):
            if name + where not in medians:
                continue
            alone = samples.beyond(f"mediated{where}", f"plain{where}")
            bare = medians[f"plain{where}"]
            note = f"the mediator alone: {alone * 1e3:.0f} ms; the bare script: {bare * 1e3:.0f} ms"
            yield Row(f"boxed Python agent by `{what}`, beyond the bare script{where}",
                      samples.beyond(name + where, f"plain{where}") * 1e3, "ms", 150.0, n=rounds,
                      note=note, medians=medians)  # fmt: skip


def import_rows(session: Session) -> Iterator[Row]:
    """Imports, beyond a Python that does nothing."""
    rounds = session.rounds(75)
    lines = {
        "import axonkernel": 40.0,
        "from axonkernel import Kernel": None,
        "from axonkernel import define_agent": None,
    }
    actions = {"pass": timed(lambda: run((sys.executable, "-c", "pass")))}
    for text in lines:
        actions[text] = timed(partial(run, (sys.executable, "-c", text)))
    samples = by_turns(rounds, actions)
    for text, budget in lines.items():
        yield Row(f"`{text}`, beyond `pass`", samples.beyond(text, "pass") * 1e3, "ms", budget,
                  n=rounds, medians=samples.medians)  # fmt: skip
