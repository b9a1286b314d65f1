"""`python -m smforge COMMAND`, and the console script `smforge`."""

from __future__ import annotations

import os
import sys

from smforge.cli import main


def start() -> int:
    """Run one command as the whole program; its exit code, unless it leaves at once with it."""
    code = main()
    if "rattler" in sys.modules:  # after a solve its threads crash an exiting interpreter
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    raise SystemExit(start())
