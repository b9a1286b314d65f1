"""Write what solvers read about a channel: repodata, its shards, and the packages' run exports.

`python -m smforge.channel.index CHANNEL` is a process of its own: rattler's threads can kill Python
at its exit after asynchronous work, so it leaves at once when the files are written.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from smforge import tiers
from smforge.channel import archive
from smforge.errors import ConfigurationError, ToolchainError


def index(channel: Path) -> None:
    """Index every subdir of `channel` anew, in a child process.

    Raises:
        ConfigurationError: no such folder.
        ToolchainError: a package is damaged, or rattler's indexer failed.
    """
    if not channel.is_dir():
        raise ConfigurationError(
            f"{channel} is no channel: {tiers.command('channel build')} makes one"
        )
    for package in sorted(channel.glob("*/*.conda")):
        archive.read_info(package)  # rattler's indexer stops without naming the file
    command = [sys.executable, "-m", "smforge.channel.index", str(channel)]
    # found where this module was found, however that was
    source = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    environ = os.environ | {"PYTHONPATH": search}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if run.returncode:
        reason = run.stderr.strip().splitlines()
        raise ToolchainError(f"{channel} was not indexed: {reason[-1] if reason else run}")


def is_current(channel: Path) -> bool:
    """Whether repodata names every package and is newer than each; nothing is hashed."""
    for subdir in channel.glob("*/"):
        packages = {path.name: path.stat().st_mtime for path in subdir.glob("*.conda")}
        repodata = subdir / "repodata.json"
        if not packages and not repodata.exists():
            continue
        if not repodata.exists() or max(packages.values(), default=0) > repodata.stat().st_mtime:
            return False
        if set(json.loads(repodata.read_text("utf-8"))["packages.conda"]) != set(packages):
            return False
    return True


def write_run_exports(subdir: Path) -> None:
    """Write `run_exports.json` and its .zst: without, pixi downloads whole packages to look."""
    import zstandard

    exports = {}
    for package in sorted(subdir.glob("*.conda")):
        info = archive.read_info(package)
        exports[package.name] = {"run_exports": json.loads(info.get("info/run_exports.json", "{}"))}
    document = {
        "info": {"subdir": subdir.name, "version": 1},
        "packages": {},
        "packages.conda": exports,
    }
    data = json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"
    write(subdir / "run_exports.json", data)
    write(subdir / "run_exports.json.zst", zstandard.ZstdCompressor(level=19).compress(data))


def write(path: Path, data: bytes) -> None:
    """Write a file in one step."""
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(data)
    partial.replace(path)


def main(channel: Path) -> None:
    """Index `channel` in this process."""
    from rattler.index import index_fs

    asyncio.run(index_fs(channel, target_platform=None, force=True))
    for subdir in sorted(path.parent for path in channel.glob("*/repodata.json")):
        write_run_exports(subdir)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)
