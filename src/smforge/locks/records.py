"""Between the three shapes of a package: lock entry (dict), rattler record, match spec."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rattler import (
    BuildString,
    GenericVirtualPackage,
    LockFile,
    MatchSpec,
    PackageName,
    PackageRecord,
    RepoDataRecord,
    Version,
)

Entry = Mapping[str, Any]  # one item of the lock's `packages`, keyed `conda` or `conda_source`

_NOT_LOCKED = {"url", "fn", "channel", "arch", "platform"}  # the URL says them


@cache
def match_spec(text: str) -> MatchSpec:
    """The parsed spec; a lock holds the same few thousand texts again and again."""
    return MatchSpec(text)


@cache
def spec_name(spec: str) -> str:
    """The package name that a match spec is about."""
    end = next((i for i, char in enumerate(spec) if char in " [=<>!~"), len(spec))
    return spec[:end].lower()


def entry_from_record(record: RepoDataRecord) -> dict[str, Any]:
    """The lock entry of a solved record."""
    fields = json.loads(record.to_json())
    entry = {"conda": fields["url"]}
    if isinstance(fields.get("track_features"), str):  # repodata has a string, the lock a list
        fields["track_features"] = fields["track_features"].replace(",", " ").split()
    return entry | {key: value for key, value in fields.items() if key not in _NOT_LOCKED}


def records_from_entries(entries: Iterable[Entry]) -> dict[str, RepoDataRecord]:
    """rattler's record of each binary entry, by URL, as rattler's own lock reader makes it."""
    binary = [dict(entry) for entry in entries if "conda" in entry]
    document = {
        "version": 7,
        "platforms": [{"name": "linux-64"}],
        "environments": {"all": {"channels": [], "packages": {
            "linux-64": [{"conda": entry["conda"]} for entry in binary]}}},
        "packages": binary,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="smforge-") as folder:
        path = Path(folder) / "records.json"  # JSON is YAML
        path.write_text(json.dumps(document), encoding="utf-8")
        environment = LockFile.from_path(path).environment("all")
        (platform,) = environment.platforms()
        records = environment.conda_repodata_records_for_platform(platform) or []
    return {record.url: record for record in records}


def package_record(
    name: str,
    version: str,
    build: str,
    subdir: str,
    depends: Iterable[str] = (),
    constrains: Iterable[str] = (),
) -> PackageRecord:
    """A record that no channel holds: a source package or a virtual one."""
    return PackageRecord(
        name, version, BuildString(build), 0, subdir, None, None,
        depends=list(depends), constrains=list(constrains),
    )  # fmt: skip


def split_virtual(text: str) -> tuple[str, str, str]:
    """Name, version and build of the lock's text, such as "__archspec=0=x86_64"."""
    name, version, *build = text.split("=")
    return name, version, build[0] if build else "0"


def virtual_records(virtual_packages: Iterable[str]) -> dict[str, PackageRecord]:
    """The virtual packages of a platform as records, to match specs against."""
    parts = [split_virtual(text) for text in virtual_packages]
    return {name: package_record(name, version, build, "noarch") for name, version, build in parts}


def virtual_packages(texts: Iterable[str]) -> list[GenericVirtualPackage]:
    """The same for the solver."""
    return [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
        for name, version, build in map(split_virtual, texts)
    ]
