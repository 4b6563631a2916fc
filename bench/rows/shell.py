"""Boxes from a shell: each pays for a Python that starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.boxes import BARE, SOMEWHERE, axonkernel
from bench.measure import by_turns, run, timed
from bench.session import Session
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
    actions = {
        "bare": timed(lambda: run(BARE)),
        "exec": timed(lambda: run(boxed)),
        "exec, pasta": timed(lambda: run(linked)),
        "python pass": timed(lambda: run((sys.executable, "-c", "pass"))),
    }
    samples = by_turns(rounds, actions)
    medians = samples.medians
    floor = f"a Python that does nothing: {samples.ratio('python pass', 'bare'):.1f}x"
    for name, budget in (("exec", 12.0), ("exec, pasta", 18.0)):
        what = "`axonkernel exec -- true`" + (" with a pasta link" if "," in name else "")
        note = f"{medians[name] * 1e3:.1f} ms beside {medians['bare'] * 1e3:.1f} ms; {floor}; "
        note += f"steps over 2 ms: {steps[name]}"
        yield Row(f"{what}, beside bare bwrap", samples.ratio(name, "bare"), budget=budget,
                  n=rounds, note=note, medians=medians)  # fmt: skip


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
    actions = {name: timed(partial(_start, path)) for name, path in paths.items()}
    command = [*axonkernel(), "run", "--agent", str(paths["boxed"]), "--", "a", "b"]
    actions["axonkernel run"] = timed(lambda: run(command))
    samples = by_turns(rounds, actions)
    medians = samples.medians
    note = f"the mediator alone: {samples.beyond('mediated', 'plain') * 1e3:.0f} ms"
    for name, what in (("axonkernel run", "axonkernel run"), ("boxed", "python agent.py")):
        yield Row(f"boxed Python agent by `{what}`, beyond the bare script",
                  samples.beyond(name, "plain") * 1e3, "ms", 150.0, n=rounds, note=note,
                  medians=medians)  # fmt: skip


def _start(path: Path) -> None:
    run((sys.executable, str(path), "a", "b"))


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
