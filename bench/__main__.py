"""Run one benchmark in the tool environment: `./pixiw run benchmark NAME [--json]`."""

from __future__ import annotations

import sys
from pathlib import Path

from smforge.cli import complain
from smforge.tools import run_in_tool_environment

HERE = Path(__file__).resolve().parent


def main(argv: list[str]) -> int:
    names = sorted(file.stem for file in HERE.glob("[a-z]*.py"))
    if not argv or argv[0] not in names:
        given = argv[0] if argv else "nothing"
        complain(f"error: no benchmark '{given}'; there are {', '.join(names)}")
        return 2
    return run_in_tool_environment([str(HERE / f"{argv[0]}.py"), *argv[1:]])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
