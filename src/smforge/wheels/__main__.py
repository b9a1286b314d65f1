"""Start the wheel engine from a checkout: `python3 src/smforge/wheels ARGS`."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # Started as a folder: Python put that folder first on the path, where `manifest` or `run` could
    # hide a module of the same name; the package lies two folders up.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from smforge.wheels.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
