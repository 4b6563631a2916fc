"""``python -m axonkernel`` is the ``axonkernel`` command."""

from __future__ import annotations

import sys

from axonkernel.cli import main

if __name__ == "__main__":
    sys.exit(main())
