"""`smforge audit`: is every locked environment closed, hashed, and one that its tier can run?"""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from smforge.locks.tool import add_manifest_option, manifest_path, with_libraries
from smforge.tiers_command import text_table

if TYPE_CHECKING:
    from smforge.locks.audit import Audit, Finding, Row

EPILOG = """\
errors: A01 stale, A02 not closed under depends and constrains, A03 no sha256, A04 foreign channel,
A11 no CUDA in pytorch, A12 pytorch is not the table's, A13 torch and Triton are no pair,
A14 arch list, A15 nvcc, A16 host compiler, A17 CUDA versions, A18 cuDNN, A21 VC runtime,
A22 OpenMP mutex. Exit code 2 when there is one. Needs no channel and no GPU."""
_HEADER = ("platform", "environments", "packages", "download", "pytorch", "CUDA", "nvcc", "Triton")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "audit",
        help="check every locked environment against its tier",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_manifest_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    return with_libraries(args, _run)


def _run(args: argparse.Namespace) -> int:
    from smforge.locks.audit import audit

    result = audit(manifest_path(args))
    if args.json:
        print(json.dumps({**dataclasses.asdict(result), "errors": result.errors}, indent=2))
    else:
        _print(result)
    return 2 if result.errors else 0


def _print(result: Audit) -> None:
    """Plain lines, never cut to a width: a log or a pipe gets every cell whole."""
    print(text_table([_HEADER, *map(_cells, result.rows)]))
    print()
    for finding in result.findings:
        print(_line(finding))
    counts = [sum(f.level == level for f in result.findings) for level in ("error", "warning")]
    print(f"{counts[0]} errors, {counts[1]} warnings")


def _cells(row: Row) -> tuple[str, ...]:
    download = f"{row.download / 2**20:.0f} MiB"
    if row.unknown_sizes:
        download += f" + {len(row.unknown_sizes)} ?"
    return (row.platform, ", ".join(row.environments), str(row.packages), download,
            row.pytorch, row.cuda, row.nvcc, row.triton)  # fmt: skip


def _line(finding: Finding) -> str:
    """One line; a finding that is everywhere names its first place and counts the others."""
    where = [place for place in finding.where if place]
    more = f" and {len(where) - 1} more" if len(where) > 1 else ""
    return f"{finding.id} {finding.level}: {finding.text}" + (
        f" [{where[0]}{more}]" if where else ""
    )
