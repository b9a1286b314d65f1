"""pixi.toml as platforms x environments x requirements, by pixi's own rules.

What decides a package set is read; what this module does not know (PyPI dependencies, solve
groups, ...) is refused by name, because ignoring it would lock something else than pixi does.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rattler.exceptions import InvalidMatchSpecError

from smforge.errors import ConfigurationError
from smforge.locks.records import match_spec
from smforge.tables import read_toml

SUBDIR_DEFAULTS = {
    "linux-64": {"__unix": "0=0", "__linux": "4.18", "__glibc": "2.28", "__archspec": "0=x86_64"},
    "win-64": {"__win": "10.0", "__archspec": "0=x86_64"},
}
_FAMILIES = {"linux": "linux-64", "unix": "linux-64", "win": "win-64"}
_PLATFORM_KEYS = {"glibc": "__glibc", "linux": "__linux", "windows": "__win"}
_SPEC_KEYS = {"version", "build", "build-number", "channel", "subdir"}
_WORKSPACE_KEYS = {"authors", "channels", "description", "documentation", "homepage", "license",
                   "license-file", "name", "platforms", "preview", "readme", "repository",
                   "requires-pixi", "version"}  # fmt: skip
_CONTENT_KEYS = {"activation", "dependencies", "tasks"}  # the last two never change a package


@dataclass(frozen=True)
class Platform:
    """A workspace platform: a subdir and the virtual packages a machine must offer."""

    name: str
    subdir: str
    virtual_packages: tuple[str, ...]  # "__cuda=12.8", "__archspec=0=x86_64": the lock's own text

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """What identifies a platform in a lock, where pixi changes the names."""
        return self.subdir, tuple(sorted(self.virtual_packages))


@dataclass(frozen=True)
class Requirement:
    """One line of a dependencies table: a match spec, or a recipe's folder."""

    name: str
    spec: str  # 'pytorch[version=">=2.12,<2.14",build="cuda12*"]'
    path: str = ""  # "recipes/triton-windows" for a source dependency
    text: str = ""  # as people wrote it: "pytorch >=2.12,<2.14 cuda12*"


@dataclass(frozen=True)
class Environment:
    """A named environment and what it requires on each of its platforms."""

    name: str
    requirements: Mapping[Platform, tuple[Requirement, ...]]


@dataclass(frozen=True)
class Manifest:
    """What pixi.toml says about packages."""

    path: Path
    channels: tuple[str, ...]  # base URLs, highest priority first, each with a trailing slash
    platforms: tuple[Platform, ...]  # in declaration order
    environments: tuple[Environment, ...] = field(default=())

    def targets(self) -> Iterator[tuple[Environment, Platform, tuple[Requirement, ...]]]:
        """Every environment on each of its platforms, in declaration order."""
        for environment in self.environments:
            for platform, requirements in environment.requirements.items():
                yield environment, platform, requirements


def load(path: Path) -> Manifest:
    """The manifest at `path`; ConfigurationError names what is wrong or not supported in it."""
    data = read_toml(path)
    workspace = data.get("workspace", {})
    _known(workspace, _WORKSPACE_KEYS, "[workspace]")
    _known(data, _CONTENT_KEYS | {"workspace", "feature", "target", "environments", "tool"}, "it")
    platforms = tuple(_platform(entry) for entry in workspace.get("platforms", []))
    if len({platform.name for platform in platforms}) != len(platforms):
        raise ConfigurationError("pixi.toml names a platform twice in [workspace] platforms")
    channels = tuple(_channel(channel) for channel in workspace.get("channels", []))
    if not channels or not platforms:
        raise ConfigurationError("pixi.toml needs channels and platforms in [workspace]")
    environments = _environments(data, platforms)
    return Manifest(path, channels, platforms, environments)


def _known(table: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigurationError(
            f"pixi.toml: {where} has `{unknown[0]}`, which `smforge lock` does not read: "
            "take it out, or lock with `pixi lock`"
        )


def _channel(channel: Any) -> str:
    if not isinstance(channel, str):
        raise ConfigurationError("pixi.toml: a channel with its own options is not read here")
    if "://" in channel:
        return channel.rstrip("/") + "/"
    return f"https://conda.anaconda.org/{channel}/"


def _platform(entry: Any) -> Platform:
    if not isinstance(entry, str | dict):
        raise ConfigurationError(f"pixi.toml: platform {entry!r}, expected a subdir or a table")
    table = {"platform": entry} if isinstance(entry, str) else dict(entry)
    subdir = table.pop("platform", table.get("name"))
    name = table.pop("name", subdir)
    if subdir not in SUBDIR_DEFAULTS:
        raise ConfigurationError(f"pixi.toml: platform {name} is on {subdir}: only "
                                 f"{' and '.join(SUBDIR_DEFAULTS)} are supported")  # fmt: skip
    cuda = table.pop("cuda", {})
    cuda = {"driver": cuda} if isinstance(cuda, str) else cuda
    virtual = {}
    if cuda:
        _known(cuda, {"driver", "arch"}, f"cuda of platform {name}")
        virtual["__cuda"] = cuda["driver"]
    if "arch" in cuda:
        virtual["__cuda_arch"] = cuda["arch"]
    virtual |= SUBDIR_DEFAULTS[subdir]
    if "archspec" in table:
        virtual["__archspec"] = f"0={table.pop('archspec')}"
    for key in sorted(set(table) & set(_PLATFORM_KEYS)):
        virtual[_PLATFORM_KEYS[key]] = table.pop(key)
    _known(table, set(), f"platform {name}")
    return Platform(name, subdir, tuple(f"{key}={value}" for key, value in virtual.items()))


def _environments(
    data: Mapping[str, Any], platforms: tuple[Platform, ...]
) -> tuple[Environment, ...]:
    features = data.get("feature", {})
    for name, feature in features.items():
        _known(feature, _CONTENT_KEYS | {"platforms", "target"}, f"[feature.{name}]")
    tables = {"default": [], **data.get("environments", {})}
    return tuple(_environment(name, table, data, platforms) for name, table in tables.items())


def _environment(
    name: str, table: Any, data: Mapping[str, Any], platforms: tuple[Platform, ...]
) -> Environment:
    table = {"features": table} if isinstance(table, list) else table
    _known(table, _CONTENT_KEYS | {"features", "no-default-feature", "platforms", "target"},
           f"environment {name}")  # fmt: skip
    features = [table]
    for feature in table.get("features", []):
        if feature not in data.get("feature", {}):
            raise ConfigurationError(f"pixi.toml: environment {name} names feature {feature}, "
                                     f"but there is no [feature.{feature}]")  # fmt: skip
        features.append(data["feature"][feature])
    chosen = _supported(name, features, platforms)
    if not table.get("no-default-feature", False):
        features.append(data)
    return Environment(
        name,
        {platform: _requirements(features, platform) for platform in chosen},
    )


def _supported(
    name: str, features: list[Mapping[str, Any]], platforms: tuple[Platform, ...]
) -> list[Platform]:
    """The platforms every feature supports; a name excludes the subdir's others."""
    limits = [feature["platforms"] for feature in features if "platforms" in feature]
    named = {entry for limit in limits for entry in limit}
    declared = {p.name for p in platforms}
    for entry in sorted(named - declared - set(SUBDIR_DEFAULTS)):
        raise ConfigurationError(
            f"pixi.toml: environment {name} wants platform {entry}, which [workspace] "
            "platforms does not declare"
        )
    exact = {platform.subdir for platform in platforms if platform.name in named}
    return [
        platform
        for platform in platforms
        if all(platform.name in limit or platform.subdir in limit for limit in limits)
        and (platform.name in named or platform.subdir not in exact)
    ]


def _requirements(features: list[Mapping[str, Any]], platform: Platform) -> tuple[Requirement, ...]:
    """Specs of all features together; within one, a later matching target overwrites."""
    found = []
    for feature in features:
        merged = dict(feature.get("dependencies", {}))
        for selector, target in feature.get("target", {}).items():
            _known(target, _CONTENT_KEYS, f"[target.{selector}]")
            if _matches(selector, platform):
                merged |= target.get("dependencies", {})
        found += [_requirement(name, spec) for name, spec in merged.items()]
    return tuple(dict.fromkeys(found))


def _matches(selector: str, platform: Platform) -> bool:
    if selector in _FAMILIES:
        return platform.subdir == _FAMILIES[selector]
    if selector in SUBDIR_DEFAULTS:
        return platform.subdir == selector
    return fnmatch.fnmatchcase(platform.name, selector)


def _requirement(name: str, spec: Any) -> Requirement:
    if not isinstance(spec, str | dict):
        raise ConfigurationError(f"pixi.toml: dependency {name} is {spec!r}, expected a version "
                                 'such as ">=2" or a table')  # fmt: skip
    table = {"version": spec} if isinstance(spec, str) else dict(spec)
    if "path" in table:
        _known(table, {"path"}, f"dependency {name}")
        path = Path(table["path"])
        if path.is_absolute() or ".." in path.parts:
            raise ConfigurationError(f"pixi.toml: {name} has the path {path}: "
                                     "expected a folder inside the workspace")  # fmt: skip
        return Requirement(name, name, path.as_posix(), f"{name} from {path.as_posix()}")
    _known(table, _SPEC_KEYS, f"dependency {name}")
    table.setdefault("version", "*")
    fields = ",".join(f'{key.replace("-", "_")}="{value}"' for key, value in table.items())
    text = " ".join([name, *(str(table[key]) for key in ("version", "build") if key in table)])
    try:
        match_spec(f"{name}[{fields}]")
    except InvalidMatchSpecError as error:
        raise ConfigurationError(f"pixi.toml: `{text}` is no match spec: {error}") from None
    return Requirement(name, f"{name}[{fields}]", "", text)
