"""Solve each environment again with its own locked records as the only candidates.

A process of its own (`python -m tests.manifest.locked_only WORKSPACE`): it prints a line for each
environment and platform whose answer is not exactly its locked records, and a count at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from rattler import Channel, SparseRepoData, solve

from smforge.locks import manifest, read
from smforge.locks.check import Checker
from smforge.locks.records import match_spec, virtual_packages


def file_name(package: read.Package) -> str:
    record = package.record
    return package.url.rpartition("/")[2] or f"{package.name}-{record.version}-{record.build}.conda"


def candidates(packages: list[read.Package], folder: Path, number: int) -> SparseRepoData:
    records = {
        file_name(package): {
            "name": package.name, "version": str(package.record.version),
            "build": str(package.record.build), "build_number": package.record.build_number,
            "subdir": "linux-64", "depends": package.record.depends,
            "constrains": package.record.constrains,
        }
        for package in packages
    }  # fmt: skip
    path = folder / f"{number}.json"
    conda = {name: record for name, record in records.items() if name.endswith(".conda")}
    bz2 = {name: record for name, record in records.items() if name.endswith(".bz2")}
    index = {"info": {"subdir": "linux-64"}, "packages": bz2, "packages.conda": conda}
    path.write_text(json.dumps(index), "utf-8")
    return SparseRepoData(Channel("https://locked.invalid/"), "linux-64", path)


async def main(workspace: Path) -> None:
    wanted = manifest.load(workspace / "pixi.toml")
    lock = read.load(workspace / "pixi.lock")
    checker = Checker(wanted, lock)
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for environment, platform, requirements in wanted.targets():
            locked = lock.find(environment.name, platform) or ()
            packages = [checker.resolved(package, platform.subdir) for package in locked]
            count += 1
            source = candidates(packages, Path(folder), count)
            records = await solve(
                [source],
                [match_spec(requirement.spec) for requirement in requirements],
                platforms=["linux-64"],
                virtual_packages=virtual_packages(platform.virtual_packages),
            )
            source.close()
            chosen = {record.file_name for record in records}
            if chosen != {file_name(package) for package in packages}:
                print(f"{environment.name} on {platform.name} differs")
    print(f"{count} solved")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
    sys.stdout.flush()
    os._exit(0)
