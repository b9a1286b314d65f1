"""`python -m smforge COMMAND`."""

from __future__ import annotations

from smforge.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
