"""`smforge export`: write envs/<tier>/ for conda and mamba users, from pixi.lock."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from smforge.errors import ConfigurationError
from smforge.locks.tool import add_manifest_option, manifest_path, with_libraries
from smforge.tiers import command

EPILOG = """\
<subdir>.explicit.txt holds every package by URL and sha256 (conda create --file), and
<subdir>.environment.yml what pixi.toml names (conda env create -f). Our own packages are left out:
the header of each file says how to add them from a channel that you build."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "export",
        help="write envs/<tier>/ for conda and mamba users",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 2 when a file is stale"
    )
    add_manifest_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    return with_libraries(args, _run)


def _run(args: argparse.Namespace) -> int:
    from smforge.files import replace
    from smforge.locks.export import exports

    manifest = manifest_path(args)
    root = manifest.parent
    files = exports(manifest)
    stale = {path: text for path, text in files.items() if _current(root / path) != text}
    spare = sorted(_exported(root) - {root / path for path in files})
    if args.check:
        return _say_stale([*stale, *(path.relative_to(root) for path in spare)])
    for path, text in stale.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        replace(root / path, text)
    for path in spare:
        path.unlink()
    print(f"wrote {len(stale)} of {len(files)} files under envs/, removed {len(spare)}")
    return 0


def _current(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _exported(root: Path) -> set[Path]:
    """The files that an earlier export may have written."""
    patterns = ("*/*.explicit.txt", "*/*.environment.yml")
    return {path for pattern in patterns for path in (root / "envs").glob(pattern)}


def _say_stale(paths: list[Path]) -> int:
    if not paths:
        print("the exports are what pixi.lock says")
        return 0
    for path in paths:
        print(f"stale: {path.as_posix()}")
    raise ConfigurationError(f"{len(paths)} exports are stale: {command('export')} writes them")
