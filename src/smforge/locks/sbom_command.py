"""`smforge sbom`: the bill of materials of one environment, as CycloneDX 1.6 JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from smforge.errors import ConfigurationError
from smforge.locks.tool import add_manifest_option, manifest_path, with_libraries

EPILOG = """\
example: sbom -e sm86 -p win-64 -o sm86.cdx.json
Every locked package with version, licence, sha256, address and what it depends on. The same lock
gives the same bytes."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "sbom",
        help="print the bill of materials of one environment",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-e", "--environment", required=True, metavar="NAME")
    parser.add_argument(
        "-p", "--platform", required=True, metavar="PLATFORM",
        help="a subdir (win-64) or a platform of pixi.toml (win-64-sm86)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="instead of standard output"
    )
    add_manifest_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    return with_libraries(args, _run)


def _run(args: argparse.Namespace) -> int:
    from smforge.files import replace
    from smforge.locks import manifest, read
    from smforge.locks.check import Checker
    from smforge.locks.sbom import sbom

    path = manifest_path(args)
    workspace = manifest.load(path)
    platform = _platform(workspace, args.environment, args.platform)
    lock = read.load(path.with_name("pixi.lock"))
    locked = lock.find(args.environment, platform)
    if locked is None:
        raise ConfigurationError(f"pixi.lock holds no {args.environment} on {platform.name}")
    checker = Checker(workspace, lock)
    packages = [checker.resolved(package, platform.subdir) for package in locked]
    text = sbom(args.environment, platform.name, packages)
    if args.output:
        replace(args.output, text)
        print(f"wrote {args.output}: {len(packages)} packages")
    else:
        print(text, end="")
    return 0


def _platform(workspace: Any, environment: str, name: str) -> Any:
    """The environment's only platform of that name or subdir."""
    table = {item.name: item for item in workspace.environments}
    if environment not in table:
        raise ConfigurationError(
            f"pixi.toml has no environment {environment}: expected one of {', '.join(table)}"
        )
    found = [p for p in table[environment].requirements if name in (p.name, p.subdir)]
    if len(found) != 1:
        names = ", ".join(platform.name for platform in table[environment].requirements)
        raise ConfigurationError(
            f"{name} names {len(found)} platforms of {environment}: expected one of {names}"
        )
    return found[0]
