"""`smforge report DIR...`: results of `verify` as a table, JSON and a page; several side by side.

  ./pixiw run smforge report reports/*               many machines, and which of them differ
  ./pixiw run smforge report reports/a --html a.html

A DIR holds a verify.json (reports/<time>, or a copy from another machine).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from smforge import tables
from smforge.files import replace
from smforge.report.compare import compare
from smforge.report.page import page
from smforge.report.rows import rows
from smforge.report.text import side_by_side, table
from smforge.verify.result import Report, load, to_json


def add_parser(commands: Any) -> None:
    """Add `smforge report`."""
    parser = commands.add_parser(
        "report",
        help="show results of verify side by side, and say which machines differ",
        description=__doc__,
        epilog="exit codes: 0 all alike, 5 machines differ or one failed, 2 no such result",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="holds verify.json")
    parser.add_argument("--json", action="store_true", help="the comparison on standard output")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page of all of them")
    add = parser.add_argument
    add("--evidence", action="store_true", help="rows for envs/evidence.toml (maintainers)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print, and return 5 where machines differ or one failed."""
    reports = {name: load(folder) for name, folder in _names(args.folders).items()}
    differences = compare(reports)
    failed = {name: report.failed for name, report in reports.items() if report.failed}
    if args.evidence:
        print("\n".join(rows(report) for report in reports.values()))
    elif args.json:
        print(json.dumps({"differences": differences, "failed": failed}, indent=1))
    else:
        print(side_by_side(reports, differences))
    if args.html:
        write(args.html, page(reports, differences))
    return 5 if differences or failed else 0


def _names(folders: list[Path]) -> dict[str, Path]:
    """A short name for each: the folder's own, with its parent's where two are alike."""
    names = [folder.resolve().name for folder in folders]
    return {
        name if names.count(name) == 1 else str(folder): folder
        for name, folder in zip(names, folders, strict=True)
    }


def publish(report: Report, as_json: bool, html: Path | None) -> Path:
    """Keep a result below reports/, print it, and return its folder."""
    folder = _folder()
    text = to_json(report)
    write(folder / "verify.json", text)
    target = html or folder / "verify.html"
    write(target, page({folder.name: report}, []))
    sys.stdout.write(text if as_json else table(report))
    print(f"verify: kept in {tables.shown(folder)}, page {tables.shown(target)}", file=sys.stderr)
    return folder


def _folder() -> Path:
    base = tables.workspace() if tables.in_workspace() else Path.cwd()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = base / "reports" / stamp
    number = 1
    while folder.exists():  # two runs within one second
        number += 1
        folder = base / "reports" / f"{stamp}-{number}"
    folder.mkdir(parents=True)
    return folder


def write(path: Path, text: str) -> None:
    """Write a file, its folder included, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, text)
