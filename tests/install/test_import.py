"""Importing the package is cheap and loads none of its parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: What an import must never load by itself: it is missing in a bare installation, or dear.
FORBIDDEN = ("gi", "nftables", "wasmtime", "pyroute2", "pydbus", "pyseccomp")


def _loaded(code: str) -> set[str]:
    """The modules that are loaded after running ``code`` in a fresh interpreter."""
    text = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_importing_the_package_loads_only_the_package() -> None:
    """Of ours: the package itself. Of others: nothing beyond the standard library."""
    bare = _loaded("")
    loaded = _loaded("import axonkernel") - bare
    assert {name for name in loaded if name.startswith("axonkernel")} == {"axonkernel"}
    others = {name.partition(".")[0] for name in loaded} - {"axonkernel"}
    assert others <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "code",
    [
        "import axonkernel",
        "from axonkernel import define_agent, Kernel, Request",
        "from axonkernel import *; Kernel({'fs': {'read': ['/srv']}}).check(Request.read('/srv'))",
        "import axonkernel; axonkernel.define_agent(policy={'tools': {'*': 'escalate'}})",
    ],
)
def test_mediating_needs_no_system_binding(code: str) -> None:
    """A kernel can be made and asked where the distribution's bindings are missing."""
    assert not {name.partition(".")[0] for name in _loaded(code)} & set(FORBIDDEN)


def test_a_kernel_works_without_the_bindings() -> None:
    """With each of them blocked, a kernel still decides."""
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in FORBIDDEN)
    code = (
        f"import sys\n{blocked}"
        "from axonkernel import Kernel, Request\n"
        "k = Kernel({'fs': {'read': ['/srv']}})\n"
        "assert k.check(Request.read('/srv/x')).verdict == 'allow'\n"
        "assert k.check(Request.read('/etc/x')).verdict == 'deny'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: A system without walls of ours: no name that only Linux has.
MACOS = """
import os, sys
sys.platform = "darwin"
for name in ("O_PATH", "memfd_create", "pidfd_open", "sched_setaffinity", "pipe2"):
    if hasattr(os, name):
        delattr(os, name)
sys.modules.update(dict.fromkeys({blocked!r}))
"""
#: What the mediator does alone, in a file of its own: told where it runs, and what it does.
MEDIATED = """
from axonkernel import Kernel, Request

def handler(kernel, request):
    return kernel.check(Request.read(request)).verdict, os.getpid() == here

here = os.getpid()
policy = {"isolation": "auto", "fs": {"read": ["/srv"]}, "shell": {"allow": ["true"]}}
narrower = {"fs": {"read": ["/srv/a"]}}
with Kernel(policy, handler=handler, audit="log") as kernel:
    print(kernel.request_sync("/srv/b"), kernel.request_sync("/srv/b", policy=narrower))
    print([row.by for row in kernel.request_posture(narrower)][0])
    with kernel.narrow(narrower) as narrowed:
        print(narrowed.process.run_sync(["true"]).walls)
"""


def test_the_mediator_alone_works_where_linux_is_missing(tmp_path: Path) -> None:
    """Judging, a narrowed request and a program, without anything that only Linux has."""
    code = MACOS.format(blocked=FORBIDDEN) + MEDIATED
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    said = "('allow', True) ('deny', True)", "mediator", "('mediator',)"
    assert (ended.returncode, tuple(ended.stdout.splitlines())) == (0, said), ended.stderr


def test_every_public_name_is_there_and_documented() -> None:
    """__all__ is what can be imported, and each of it says what it is."""
    import axonkernel

    for name in axonkernel.__all__:
        value = getattr(axonkernel, name)
        if isinstance(value, type) or callable(value):
            assert value.__doc__, name
    assert set(axonkernel.__all__) <= set(dir(axonkernel))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As of any module."""
    import axonkernel

    with pytest.raises(AttributeError, match="nonsense"):
        axonkernel.nonsense  # noqa: B018
