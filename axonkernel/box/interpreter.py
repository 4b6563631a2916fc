"""Where this Python lies."""

from __future__ import annotations

import os
import sys
import sysconfig

__all__ = ["interpreter_files"]


def interpreter_files() -> tuple[str, ...]:
    """What this Python needs in a box: itself, its standard library, its packages, us."""
    paths = sysconfig.get_paths()
    files = [paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]]
    files += [os.path.realpath(sys.executable), os.path.dirname(os.path.dirname(__file__))]
    if sys.prefix != sys.base_prefix:
        files.append(sys.prefix)
    if sys.base_prefix not in ("/usr", "/usr/local"):
        files.append(sys.base_prefix)
    files += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    real = dict.fromkeys(os.path.realpath(path) for path in files)
    return tuple(path for path in real if os.path.exists(path))
