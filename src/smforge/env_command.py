"""`smforge env`: what activation decided for this process, and why."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from smforge import activation

EPILOG = """\
The status and what mends it: README.md, "Troubleshooting". Every variable: activation/README.md."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "env",
        help="print what activation decided, and why",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    answer = describe()
    if args.json:
        print(json.dumps(answer, indent=2))
    else:
        print_lines(answer)
    return 0


def describe() -> dict[str, Any]:
    """The answer: status, reason, remedy, and each variable with its value (None: unset)."""
    found = activation.state(os.environ)
    return {
        "status": found.status,
        "reason": found.reason,
        "remedy": found.remedy,
        "tier": os.environ.get("SMFORGE_TIER"),
        "prefix": os.environ.get("CONDA_PREFIX"),
        "caches": activation.cache_problems(os.environ),
        "variables": {
            row.name: os.environ.get(row.name)
            for row in activation.variables(activation.platform())
            if row.name not in ("SMFORGE_STATUS", "SMFORGE_REASON")
        },
    }


def print_lines(answer: dict[str, Any]) -> None:
    """The answer for people: one fact a line, variables that are set alone."""
    for name in ("status", "reason", "remedy", "tier", "prefix"):
        if answer[name]:
            print(f"{name:<8} {answer[name]}")
    for problem in answer["caches"]:
        print(f"caches   {problem}")
    print()
    for name, value in answer["variables"].items():
        if value is not None:
            print(f"{name}={value}")
