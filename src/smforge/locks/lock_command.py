"""`smforge lock`: solve every environment of pixi.toml for win-64 and linux-64, write pixi.lock."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from smforge.locks.tool import add_manifest_option, manifest_path, with_libraries

EPILOG = """\
With pixi on PATH, `pixi lock` does the same; this needs no pixi, and no GPU. Versions already
locked are kept where they still fit: --upgrade moves all of them, --upgrade NAME... the named ones.

examples:
  lock                                          solve what changed over the channels
  lock --check                                  exit code 2 and a short diff when stale; no network
  lock --upgrade pytorch                        let pytorch, and what it needs, move
  lock --channel-dir tests/data/conda-forge     solve over an offline index"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "lock",
        help="solve pixi.toml and write pixi.lock, or check it",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check", action="store_true", help="only say whether pixi.lock fits; needs no channel"
    )
    parser.add_argument(
        "--upgrade", nargs="*", metavar="NAME", help="move versions: of these packages, or of all"
    )
    parser.add_argument(
        "--channel-dir", type=Path, metavar="DIR",
        help="offline index: DIR/<subdir>/repodata.json or .zst, in place of the channel",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_manifest_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    return with_libraries(args, _run)


def _run(args: argparse.Namespace) -> int:
    from smforge.locks import update

    manifest = manifest_path(args)
    if args.check:
        return update.check(manifest, args.json)
    return update.lock(manifest, args.upgrade, args.channel_dir, args.json)
