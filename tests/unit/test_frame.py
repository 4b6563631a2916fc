"""The project's own habits: what holds for every module, and for what is said about them."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import axonkernel
from axonkernel import errors
from axonkernel.policy import model, parse
from axonkernel.policy.request import CODES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "axonkernel"
DOCS = ROOT / "docs"

#: What policy/ must not import: a decision may depend on nothing but the policy and the request.
IMPURE = {"logging", "os", "random", "socket", "subprocess", "time"}
#: What `import axonkernel` must not load: slow, or absent without the system packages.
HEAVY = {"gi", "nftables", "pydbus", "pyroute2", "wasmtime"}

#: What apt-get brings, see packaging/apt.txt.
OF_THE_DISTRIBUTION = {"gi", "nftables"}
#: Of the standard library of a Python that these tests may not run under.
OF_ANOTHER_PYTHON = {"_sha2", "_sha256"}


def imported(source: str) -> set[str]:
    """The top-level names of every module that source text imports, at any depth of nesting."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


def test_imports_are_found_wherever_they_stand() -> None:
    """The purity test below would notice an import inside a function."""
    assert imported("def f():\n    import os.path\n    from socket import socket") == {
        "os",
        "socket",
    }


@pytest.mark.parametrize(
    "file", sorted((PACKAGE / "policy").rglob("*.py")), ids=lambda file: file.name
)
def test_policy_is_pure(file: Path) -> None:
    """No module of policy/ can reach the system, the clock or chance."""
    assert not imported(file.read_text()) & IMPURE


def test_every_folder_of_modules_is_a_package() -> None:
    """No folder is an accidental namespace package, which type checks and wheels miss."""
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def members(value: object) -> Iterator[tuple[str, object]]:
    """What a user of a public class can call."""
    for name, member in vars(value).items():
        if not name.startswith("_") and (
            inspect.isfunction(member) or isinstance(member, property)
        ):
            yield name, member


@pytest.mark.parametrize("name", sorted(axonkernel.__all__))
def test_public_names_are_documented(name: str) -> None:
    """Every public name, and every public method of it, has a docstring."""
    value = getattr(axonkernel, name)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        value = type(value)
    assert inspect.getdoc(value), name
    if inspect.isclass(value) and value.__module__.startswith("axonkernel"):
        silent = [
            f"{name}.{key}" for key, member in members(value) if not (member.__doc__ or "").strip()
        ]
        assert not silent


def test_importing_the_package_is_light() -> None:
    """`import axonkernel` loads none of the heavy or optional libraries."""
    script = "import sys, axonkernel; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "axonkernel" in loaded
    assert not HEAVY & set(loaded)


def test_the_version_is_said_once_and_the_same() -> None:
    """The package and its metadata tell the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert axonkernel.__version__ == project["version"]


def test_dependencies_are_what_is_imported() -> None:
    """Nothing is installed that no module needs, and nothing is imported by luck."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *itertools.chain(*extras)]
    named = {line.partition(">=")[0] for line in lines} - {"opentelemetry-sdk"}
    files = (file.read_text() for file in PACKAGE.rglob("*.py"))
    found = set().union(*map(imported, files)) - sys.stdlib_module_names - OF_ANOTHER_PYTHON
    known = {module.replace("_", "-") for module in found - {"axonkernel", *OF_THE_DISTRIBUTION}}
    assert known == {name.removesuffix("-api") for name in named}


def test_dependencies_have_lower_bounds() -> None:
    """No requirement is met by an old copy that the distribution happens to have."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    groups = project["dependency-groups"]
    wanted = [*project["project"]["dependencies"]]
    wanted += [line for lines in (*extras.values(), *groups.values()) for line in lines]
    assert len(wanted) > 10
    assert [line for line in wanted if ">=" not in line] == []


def test_system_packages_are_listed_once_each_with_a_reason() -> None:
    """packaging/apt.txt is sorted, without doubles, one package and its reason per line; a
    [program] stands for the package where it comes from another source."""
    lines = (ROOT / "packaging" / "apt.txt").read_text().splitlines()
    packages = [re.fullmatch(r"([a-z0-9.+-]+)( \[[a-z]+\])? +# \S.*", line) for line in lines]
    assert all(packages)
    names = [package[1] for package in packages if package]
    assert names == sorted(set(names))


def block_fields() -> Iterator[str]:
    """Every field of the policy as a user writes it: `fs.read`, `limits.memory`."""
    hints = typing.get_type_hints(model.Policy)
    for field in attrs.fields(model.Policy):
        kinds = typing.get_args(hints[field.name]) or (hints[field.name],)
        blocks = [kind for kind in kinds if attrs.has(kind) and kind is not model.ToolRules]
        if not blocks and field.name != "declared":
            yield field.name
        for block in blocks:
            for inner in attrs.fields(block):
                yield f"{field.name}.{re.sub('_(bytes|millicores|s)$', '', inner.name)}"


@pytest.mark.parametrize("field", sorted(block_fields()))
def test_every_policy_field_is_documented(field: str) -> None:
    """docs/policy.md describes each field that the parser accepts."""
    assert f"`{field}`" in (DOCS / "policy.md").read_text()


def fenced(file: Path, language: str) -> list[str]:
    """The code blocks of one language in a Markdown file."""
    return re.findall(rf"^```{language}\n(.*?)^```", file.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", fenced(DOCS / "policy.md", "toml"), ids=itertools.count(1))
def test_documented_policies_are_understood(text: str) -> None:
    """Every example policy of the documentation parses without a fault."""
    assert parse.parse(tomllib.loads(text), base="/srv/project", home="/home/user").declared


def test_documented_codes_are_the_codes() -> None:
    """docs/denials.md lists the closed list of codes, no more and no fewer."""
    section = (DOCS / "denials.md").read_text().partition("## The codes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) == list(CODES)


def test_documented_exceptions_are_the_exceptions() -> None:
    """docs/denials.md names every exception class that can reach a caller."""
    section = (DOCS / "denials.md").read_text().partition("## The exceptions")[2]
    named = set(re.findall(r"^\| `([A-Za-z]+)` \|", section, re.MULTILINE))
    raised = {name for name in errors.__all__ if name.endswith(("Error", "Denied", "Exceeded"))}
    assert named == raised - {"AxonError"} | {"EscalationPending", "IsolationUnavailable"}


def declared_policies(text: str) -> list[object]:
    """Every policy that a program hands to a call: ``policy=``, or after the agent's name."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = [word.value for call in calls for word in call.keywords if word.arg == "policy"]
    defining = [call for call in calls if getattr(call.func, "id", "") == "define_agent"]
    second = [argument for call in defining for argument in call.args[1:2]]
    return [ast.literal_eval(each) for each in (*second, *named)]


EXAMPLES = fenced(ROOT / "README.md", "python")


def test_the_readme_has_examples() -> None:
    """The test below has something to look at."""
    assert EXAMPLES and all("define_agent" in text for text in EXAMPLES)


@pytest.mark.parametrize("text", EXAMPLES, ids=itertools.count(1))
def test_the_examples_of_the_readme_are_programs_with_a_sound_policy(text: str) -> None:
    """What a user copies first compiles, and its policies are understood in full."""
    policies = declared_policies(text)
    assert policies
    names = re.findall(r"^from axonkernel import (.*)$", text, re.MULTILINE)[0].split(", ")
    assert set(names) <= set(axonkernel.__all__)
    for policy in policies:
        assert parse.parse(policy, base="/srv/project", home="/home/user").fs


def test_links_of_the_documentation_lead_somewhere() -> None:
    """Every relative link in the README and in docs/ names a file that is there."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.glob("*.md")]
    links = [
        (page.name, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert links == []
