"""``python -m axonkernel`` is the ``axonkernel`` command."""

from __future__ import annotations

from axonkernel.cli import start

if __name__ == "__main__":
    start()
