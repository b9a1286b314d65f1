"""Read pixi.lock, version 7, or say in one line why it cannot be trusted."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from rattler import LockFile, PackageRecord

from smforge.errors import ConfigurationError
from smforge.locks.manifest import Platform
from smforge.locks.records import Entry, package_record, records_from_entries, spec_name
from smforge.tiers import command

VERSION = 7
_MARKER = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
_VERSION = re.compile(r"\Aversion: (\d+)\r?$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"  ([^\s:]+):$")
_PLATFORM = re.compile(r"      ([^\s:]+):$")
_ITEM = re.compile(r"      - (conda|conda_source): (\S.*)$")
_SOURCE = re.compile(r"^(?P<name>[^\[@ ]+)(?:\[(?P<hash>[0-9a-f]+)\])? @ (?P<path>.+)$")


@dataclass(frozen=True, eq=False)
class Package:
    """A locked package: its entry in the lock, its record, and what checks ask for often."""

    entry: Entry
    record: PackageRecord
    name: str  # normalized
    depends: tuple[tuple[str, str], ...]  # (package name, spec)
    constrains: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """How the lock refers to it: a URL or a source selector."""
        return _key(self.entry)

    @property
    def url(self) -> str:
        """Where a binary package comes from; empty for a source package."""
        return str(self.entry.get("conda", ""))

    @property
    def path(self) -> str:
        """The recipe's folder of a source package; empty for a binary one."""
        return source_path(self.entry)

    @property
    def label(self) -> str:
        """Name and, where the lock knows it, version."""
        return f"{self.name} {self.record.version}" if self.url else f"{self.name} from {self.path}"


@dataclass(frozen=True)
class LockedEnvironment:
    """The packages of one environment, per platform of the lock."""

    channels: tuple[str, ...]
    options: Mapping[str, Any]
    packages: Mapping[Platform, tuple[Package, ...]]


@dataclass(frozen=True)
class Lock:
    """A lock that rattler reads and writes back unchanged."""

    path: Path
    environments: Mapping[str, LockedEnvironment]
    packages: Mapping[str, Package]  # by URL or source selector

    def find(self, environment: str, platform: Platform) -> tuple[Package, ...] | None:
        """The packages of `environment` on the platform of the same content, if locked."""
        locked = self.environments.get(environment)
        if locked is None:
            return None
        return next((p for key, p in locked.packages.items() if key.key == platform.key), None)

    def needed(self, package: Package, kind: str) -> tuple[Package, ...]:
        """The `kind` ("build" or "host") packages of a source package."""
        return tuple(
            self.packages[item["conda"]] for item in package.entry.get(f"{kind}_packages", [])
        )


def load(path: Path) -> Lock:
    """The lock at `path`; ConfigurationError for anything that pixi would not have written."""
    try:
        raw = path.read_bytes()
        content = raw.decode("utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"{path} is missing: make it with {command('lock')}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise _broken(path, f"byte {error.start} is not UTF-8") from None
    if marker := _MARKER.search(content):
        line = content.count("\n", 0, marker.start()) + 1
        raise _broken(path, f"line {line} is a merge conflict marker")
    version = _VERSION.search(content)
    if version is None:
        raise _broken(path, f"it does not begin with `version: {VERSION}`")
    if version[1] != str(VERSION):
        raise _broken(path, f"its version is {version[1]}, expected {VERSION}")
    _check_form(path, content)
    return _lock(path, _parse(content))


def _broken(path: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is damaged ({what}): restore it with `git checkout {path.name}`, or solve "
        f"anew with `{command('lock')} --upgrade`"
    )


def _check_form(path: Path, content: str) -> None:
    """rattler has to read the file and write it back byte for byte."""
    with tempfile.TemporaryDirectory(prefix="smforge-") as folder:
        copy = Path(folder) / "pixi.lock"
        try:
            LockFile.from_path(path).to_path(copy)
        except Exception as error:  # rattler's lock errors share no base class
            raise _broken(path, " ".join(str(error).split())) from None
        written = copy.read_text(encoding="utf-8")
    if written != content:
        lines = zip(content.splitlines(), written.splitlines(), strict=False)
        number = next((n for n, (a, b) in enumerate(lines, 1) if a != b), None)
        number = number or min(content.count("\n"), written.count("\n")) + 1
        raise _broken(path, f"line {number} is not as pixi writes it: cut off or edited by hand")


def _parse(content: str) -> dict[str, Any]:
    """The data of a well-formed lock; half of its lines only repeat URLs, and need no YAML."""
    head, _, packages = content.partition("\npackages:\n")
    skeleton: list[str] = []
    items: dict[tuple[str, str], list[dict[str, str]]] = {}
    environment = platform = ""
    for line in head.splitlines():
        if match := _ITEM.match(line):
            items[environment, platform].append({match[1]: match[2]})
            continue
        skeleton.append(line)
        if match := _ENVIRONMENT.match(line):
            environment = match[1]
        elif match := _PLATFORM.match(line):
            platform = match[1]
            items[environment, platform] = []
    data: dict[str, Any] = yaml.load("\n".join(skeleton), Loader=yaml.CSafeLoader)
    for (environment, platform), selectors in items.items():
        data["environments"][environment]["packages"][platform] = selectors
    data["packages"] = yaml.load(packages, Loader=yaml.CSafeLoader) or []
    return data


def _lock(path: Path, data: Mapping[str, Any]) -> Lock:
    platforms = {}
    for item in data["platforms"]:
        virtual = tuple(item.get("virtual-packages", []))
        platforms[item["name"]] = Platform(item["name"], item.get("subdir", item["name"]), virtual)
    packages = _packages(path, data["packages"])
    environments = {
        name: LockedEnvironment(
            channels=tuple(channel["url"] for channel in table["channels"]),
            options=table.get("options", {}),
            packages={
                platforms[platform]: tuple(packages[_key(item)] for item in items)
                for platform, items in table["packages"].items()
            },
        )
        for name, table in data["environments"].items()
    }
    return Lock(path, environments, packages)


def _key(entry: Entry) -> str:
    return str(entry.get("conda") or entry.get("conda_source"))


def _packages(path: Path, entries: list[dict[str, Any]]) -> dict[str, Package]:
    for entry in entries:
        if not entry.keys() & {"conda", "conda_source"}:
            raise _broken(path, f"it holds a package that is not from conda: {next(iter(entry))}")
    records = records_from_entries(entries)
    return {
        _key(entry): _package(
            entry, records[entry["conda"]] if "conda" in entry else _source_record(path, entry)
        )
        for entry in entries
    }


def _package(entry: Entry, record: PackageRecord) -> Package:
    depends, constrains = (
        tuple((spec_name(spec), spec) for spec in specs)
        for specs in (record.depends, record.constrains)
    )
    return Package(entry, record, str(record.name.normalized), depends, constrains)


def _source_record(path: Path, entry: Entry) -> PackageRecord:
    """A source package's record; the lock leaves its version to the recipe."""
    match = _SOURCE.match(entry["conda_source"])
    if match is None:
        raise _broken(path, f"`{entry['conda_source']}` is no source package")
    subdir = entry.get("variants", {}).get("target_platform", "noarch")
    return package_record(
        match["name"], "0", "source", subdir, entry.get("depends", ()), entry.get("constrains", ())
    )


def source_path(entry: Entry) -> str:
    """The recipe folder of a source entry; empty for a binary one."""
    match = _SOURCE.match(entry.get("conda_source", ""))
    return match["path"] if match else ""


def with_version(package: Package, version: str, build: str) -> Package:
    """A source package with the version that its recipe gives it, so that specs can match."""
    old = package.record
    record = package_record(package.name, version, build, old.subdir, old.depends, old.constrains)
    return replace(package, record=record)
