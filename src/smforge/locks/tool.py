"""Run a command of this package where its libraries are: here, or in the tool environment."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from smforge.errors import ConfigurationError
from smforge.tables import in_workspace, workspace

_LIBRARIES = ("rattler", "rattler_build", "yaml", "zstandard", "cyclonedx")


def with_libraries(args: argparse.Namespace, body: Callable[[argparse.Namespace], int]) -> int:
    """Exit code of `body(args)`, or of the same command line in the tool environment."""
    if all(importlib.util.find_spec(name) for name in _LIBRARIES):
        return body(args)
    from smforge.tools import in_tool_environment, run_in_tool_environment

    if in_tool_environment():
        raise ConfigurationError(
            f"envs/tools/base.txt lacks one of {', '.join(_LIBRARIES)}: restore it from git"
        )
    return run_in_tool_environment(["-m", "smforge", *sys.argv[1:]])


def add_manifest_option(parser: argparse.ArgumentParser) -> None:
    """`--manifest-path`, as pixi names it; without it, this checkout's own pixi.toml."""
    parser.add_argument(
        "--manifest-path", type=Path, metavar="FILE", help="pixi.toml of another workspace"
    )


def manifest_path(args: argparse.Namespace) -> Path:
    """The pixi.toml that the command is about; pixi.lock lies beside it."""
    if args.manifest_path:
        path = Path(args.manifest_path)
        return path / "pixi.toml" if path.is_dir() else path
    if not in_workspace():
        raise ConfigurationError(
            "this works on a workspace's pixi.toml: run it in a checkout of smforge, or name one "
            "with --manifest-path"
        )
    return workspace() / "pixi.toml"
