"""Check a channel: every package whole and as indexed, and its own tests run where they can."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smforge import tiers
from smforge.channel import archive, publish
from smforge.channel.recipes import host_platform, one_line, say
from smforge.errors import ConfigurationError, ToolchainError, VerificationError


def check(channel: Path, others: Sequence[str] = ("conda-forge",)) -> int:
    """Check every package of `channel`; the number of packages whose own tests ran here.

    Args:
        others: channels that the test environments take their other packages from.

    Raises:
        VerificationError: a package differs from its record or fails a test of its own.
    """
    publish.refuse_shared(channel)
    records = indexed(channel)
    ran = 0
    for name, record in sorted(records.items()):
        package = channel / record["subdir"] / name
        check_bytes(package, record)
        check_files(package)
        if record["subdir"] in ("noarch", host_platform()):
            run_tests(package, [channel.resolve().as_uri(), *others])
            ran += 1
            say(f"{package}: as indexed, its tests passed")
        else:
            say(f"{package}: as indexed; its import tests need {record['subdir']}")
    return ran


def indexed(channel: Path) -> dict[str, dict[str, Any]]:
    """The records of the channel's repodata, by file name."""
    records: dict[str, dict[str, Any]] = {}
    for path in channel.glob("*/repodata.json"):
        records |= json.loads(path.read_text("utf-8"))["packages.conda"]
    there = {p.name for p in channel.glob("*/*.conda")}
    if not records or there != set(records):
        raise ConfigurationError(
            f"{channel}: repodata and packages differ ({len(records)} indexed, {len(there)} "
            f"there): run {tiers.command('channel index')}"
        )
    return records


def check_bytes(package: Path, record: dict[str, Any]) -> None:
    """The file is the one that was indexed."""
    found = publish.sha256(package)
    if found != record["sha256"]:
        raise VerificationError(
            f"{package} has sha256 {found}, repodata says {record['sha256']}: it was tampered "
            f"with or replaced; delete it, build it again and run {tiers.command('channel index')}"
        )


def check_files(package: Path) -> None:
    """Every file is what `info/paths.json` says: none is missing, added or out of the prefix."""
    paths = json.loads(archive.read_info(package)["info/paths.json"])["paths"]
    said = {entry["_path"]: entry.get("sha256") for entry in paths if "sha256" in entry}
    there = {
        name: hashlib.sha256(data).hexdigest()
        for name, data in archive.read_files(package, "pkg").items()
    }
    wrong = sorted(name for name in said.keys() | there.keys() if said.get(name) != there.get(name))
    if wrong:
        raise VerificationError(f"{package}: {wrong[0]} is not as info/paths.json says")
    outside = [name for name in there if name.startswith("/") or ".." in Path(name).parts]
    if outside:
        raise VerificationError(f"{package}: {outside[0]} would leave the environment")


def run_tests(package: Path, channels: Sequence[str]) -> None:
    """Run the tests that the recipe put into the package."""
    import rattler_build as rb

    try:
        results = rb.Package.from_file(package).run_tests(channel=list(channels))
    except rb.RattlerBuildError as error:
        raise ToolchainError(f"{package}: its tests could not run: {one_line(error)}") from None
    for result in results:
        if not result.success:
            said = [line for line in result.output if line.strip()][-3:]
            if any("failed to setup test environment" in line for line in said):
                raise ToolchainError(
                    f"{package}: no environment for its tests from {', '.join(channels)}: check "
                    "the network, or name a channel that can be reached with --with"
                )
            raise VerificationError(
                f"{package}: test {result.test_index} of its recipe failed: {' '.join(said)}"
            )
