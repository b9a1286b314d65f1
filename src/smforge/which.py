"""`smforge which`: the tier this machine gets, the one that is installed, and why."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from smforge import tiers
from smforge.errors import GPUError
from smforge.probe import gpu
from smforge.tables import dotted

EPILOG = """\
CONDA_OVERRIDE_CUDA=12.8 and CONDA_OVERRIDE_CUDA_ARCH=8.6 answer for another machine, as they
do in pixi; an empty value means "none". Exit code 3: what is installed cannot run here."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "which",
        help="say which tier this machine gets, and why",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    machine = gpu.detect()
    tier, reason = tiers.choose(machine)
    error: GPUError | None = None
    warning = None
    try:
        warning = tiers.check_installed(os.environ, machine).warning
    except GPUError as problem:
        error = problem
    answer = {
        "tier": tier.name,
        "installed": os.environ.get("SMFORGE_TIER") or None,
        "reason": reason,
        "problem": str(error) if error else warning,
        "gpus": [
            {
                "index": g.index,
                "name": g.name,
                "capability": g.capability and dotted(g.capability),
                "memory": g.memory,
                "uuid": g.uuid,
            }
            for g in machine.gpus
        ],
        "driver": machine.driver,
        "cuda_driver": machine.cuda_driver and dotted(machine.cuda_driver),
        "source": machine.source,
    }
    if args.json:
        print(json.dumps(answer, indent=2))
    else:
        print_lines(answer)
    return error.exit_code if error else 0


def print_lines(answer: dict[str, Any]) -> None:
    """The answer for people: one fact a line."""
    print(f"tier       {answer['tier']}")
    print(f"reason     {answer['reason']}")
    print(f"installed  {answer['installed'] or 'not from smforge (SMFORGE_TIER is not set)'}")
    for card in answer["gpus"]:
        memory = card["memory"] / 2**30
        print(f"GPU {card['index']}      {card['name']}, {card['capability']}, {memory:.0f} GiB")
    if answer["driver"]:
        print(f"driver     {answer['driver']} (CUDA {answer['cuda_driver']})")
    print(f"found by   {answer['source']}")
    if answer["problem"]:
        print(f"note       {answer['problem']}")
