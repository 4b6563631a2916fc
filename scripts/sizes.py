"""Prints how large our files and functions are, and names the largest.

A report for the reader, never a failure: a long function may be right, but nobody should be
surprised by it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
LONG_FILE_LINES = 250
LONG_FUNCTION_LINES = 50


def functions(tree: ast.Module, file: Path) -> Iterator[tuple[int, str]]:
    """Every function with its length in lines, docstring included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{file}:{node.name}"


def report(title: str, sizes: list[tuple[int, str]], limit: int) -> None:
    """One line of summary, then one for each that is longer than the habit."""
    if not sizes:
        return
    print(f"{title}: {len(sizes)}, in the middle {median(size for size, _ in sizes):g} lines")
    for size, name in sorted(sizes, reverse=True):
        if size > limit:
            print(f"  {size:4} lines (habit: {limit})  {name}")


def main() -> None:
    """Reports on the package; tests and benchmarks have habits of their own."""
    files: list[tuple[int, str]] = []
    defs: list[tuple[int, str]] = []
    for file in sorted((ROOT / "axonkernel").rglob("*.py")):
        text, name = file.read_text(), file.relative_to(ROOT)
        files.append((text.count("\n"), str(name)))
        defs.extend(functions(ast.parse(text), name))
    report("files", files, LONG_FILE_LINES)
    report("functions", defs, LONG_FUNCTION_LINES)


if __name__ == "__main__":
    main()
