"""Write pixi.lock, version 7, byte for byte as pixi 0.77 orders and formats it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rattler import LockFile

from smforge.locks.manifest import SUBDIR_DEFAULTS, Manifest
from smforge.locks.records import Entry

Solutions = Mapping[tuple[str, str], Sequence[Entry]]  # (environment, platform name) -> entries


def aliases(manifest: Manifest) -> dict[str, str]:
    """Platform name -> its name in the lock: pixi numbers those that are more than a subdir."""
    rich = [p.name for p in manifest.platforms if p.name not in SUBDIR_DEFAULTS]
    names = {platform.name: platform.name for platform in manifest.platforms}
    return names | {name: f"p{number}" for number, name in enumerate(rich, start=1)}


def text(manifest: Manifest, solutions: Solutions) -> str:
    """The lock file's text; rattler orders and formats it."""
    with tempfile.TemporaryDirectory(prefix="smforge-") as folder:
        draft, final = Path(folder) / "draft.json", Path(folder) / "pixi.lock"
        draft.write_text(json.dumps(document(manifest, solutions)), encoding="utf-8")  # also YAML
        LockFile.from_path(draft).to_path(final)
        return final.read_text(encoding="utf-8")


def document(manifest: Manifest, solutions: Solutions) -> dict[str, Any]:
    """The lock as data; `packages` holds what environments and source packages refer to."""
    alias = aliases(manifest)
    packages: dict[str, dict[str, Any]] = {}
    environments: dict[str, Any] = {}
    for (name, platform), entries in solutions.items():
        environment = environments.setdefault(
            name, {"channels": [{"url": url} for url in manifest.channels], "packages": {}}
        )
        environment["packages"][alias[platform]] = [selector(entry) for entry in entries]
        for entry in entries:
            _add(packages, entry)
    used = {alias[platform] for _, platform in solutions}
    platforms = [
        {"name": alias[p.name], "subdir": p.subdir, "virtual-packages": list(p.virtual_packages)}
        for p in manifest.platforms
        if alias[p.name] in used
    ]
    return {
        "version": 7,
        "platforms": platforms,
        "environments": environments,
        "packages": list(packages.values()),
    }


def selector(entry: Entry) -> dict[str, str]:
    """How an environment refers to an entry."""
    key = "conda" if "conda" in entry else "conda_source"
    return {key: entry[key]}


def _add(packages: dict[str, dict[str, Any]], entry: Entry) -> None:
    for needed in entry.get("_needs", []):
        _add(packages, needed)
    (key,) = selector(entry).values()
    fields = {name: value for name, value in entry.items() if name != "_needs"}
    packages[key] = packages.get(key, {}) | fields  # one mention may know the run exports
