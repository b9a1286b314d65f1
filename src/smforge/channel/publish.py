"""Hand a channel's packages on: to a folder that is served elsewhere, or to prefix.dev."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from smforge import files, tiers
from smforge.channel import archive, index
from smforge.channel.recipes import one_line, say
from smforge.errors import ConfigurationError, ToolchainError

PREFIX_URL = "https://prefix.dev"
# Holds DLLs of the builder's own CUDA and cuDNN, whose licences keep them off a channel.
NEVER = ("pytorch-kepler",)
# In a channel's folder: the packages that were handed on from it, with their sha256.
RECORD = "published.json"


def packages(channel: Path) -> list[Path]:
    """The whole packages of `channel` that may be handed on.

    Raises:
        ConfigurationError: there are none, or others can write to the channel.
        DamagedArchiveError: one is truncated.
    """
    refuse_shared(channel)
    found = [p for p in sorted(channel.glob("*/*.conda")) if not p.name.startswith(NEVER)]
    if not found:
        raise ConfigurationError(
            f"{channel} holds no package: {tiers.command('channel build')} makes them"
        )
    for package in found:
        archive.index_record(package)
    return found


def refuse_shared(folder: Path) -> None:
    """Stop at a folder in which other users of this machine could exchange a package."""
    for path in (folder, *folder.glob("*/")):
        if sys.platform != "win32" and path.exists() and path.stat().st_mode & stat.S_IWOTH:
            raise ConfigurationError(
                f"{path} can be written by every user, so its packages cannot be trusted: "
                f"chmod o-w {path}"
            )


def to_folder(channel: Path, target: Path) -> list[Path]:
    """Copy the packages that `target` lacks and index it anew; returns the new files.

    Nothing is copied if one file would replace a different one of the same name.
    """
    refuse_shared(target)
    wanted = {target / p.parent.name / p.name: p for p in packages(channel)}
    new = {new: old for new, old in wanted.items() if not new.exists()}
    for there, here in wanted.items():
        if there not in new and sha256(there) != sha256(here):
            raise ConfigurationError(
                f"{there} is published and differs from {here}: raise build_number in its recipe"
            )
    try:
        for there, here in new.items():
            there.parent.mkdir(parents=True, exist_ok=True)
            partial = there.with_name(there.name + ".part")
            try:
                shutil.copyfile(here, partial)
                partial.replace(there)
            finally:
                partial.unlink(missing_ok=True)
            say(f"published {there}")
    except OSError as error:
        raise ToolchainError(f"{target}: {error.strerror} ({error.filename})") from None
    index.index(target)
    remember(channel, wanted.values())
    return sorted(new)


def to_prefix(channel: Path, name: str, attest: bool) -> list[Path]:
    """Upload to the prefix.dev channel `name`, with an attestation of where it was built if asked.

    Credentials come from rattler's keychain (`pixi auth login`) or, in CI, from trusted publishing.
    """
    import rattler_build as rb

    chosen = packages(channel)
    refuse_changed(channel, chosen)
    try:
        rb.upload_package_to_prefix(
            [str(path) for path in chosen],
            PREFIX_URL,
            name,
            skip_existing=True,
            generate_attestation=attest,
        )
    except rb.RattlerBuildError as error:
        raise ToolchainError(f"{PREFIX_URL}/{name}: {one_line(error)}") from None
    remember(channel, chosen)
    return chosen


def published(channel: Path) -> dict[str, str]:
    """What was handed on from `channel`: "win-64/x.conda" -> sha256."""
    path = channel / RECORD
    found: dict[str, str] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def was_published(package: Path) -> bool:
    """Whether this file, as it is, was handed on from its channel."""
    name = f"{package.parent.name}/{package.name}"
    known = published(package.parent.parent).get(name)
    return known is not None and known == sha256(package)


def refuse_changed(channel: Path, chosen: Iterable[Path]) -> None:
    """Stop where a package differs from the one of its name that was handed on before."""
    known = published(channel)
    for path in chosen:
        before = known.get(f"{path.parent.name}/{path.name}")
        if before and before != sha256(path):
            raise ConfigurationError(
                f"{path} differs from the file of that name that was published: raise "
                "build_number in its recipe"
            )


def remember(channel: Path, chosen: Iterable[Path]) -> None:
    """Write down what was handed on, so that a later build does not put another in its place."""
    sent = {f"{path.parent.name}/{path.name}": sha256(path) for path in chosen}
    record = json.dumps(published(channel) | sent, indent=2, sort_keys=True) + "\n"
    files.replace(channel / RECORD, record)


def sha256(path: Path) -> str:
    """The file's sha256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
