"""`python -m smforge COMMAND`."""

from __future__ import annotations

import os
import sys

from smforge.cli import main

if __name__ == "__main__":
    code = main()
    if "rattler" in sys.modules:  # after a solve its threads crash an exiting interpreter
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)
