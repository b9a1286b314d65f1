"""The part of pixi.toml that the wheel engine runs: environments, tasks and activation.

Rules are pixi's (`pixi run`, activation): an environment's features as listed, the default feature
last; within a feature a later table is the more specific one; the first definition of a key wins.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smforge.errors import ConfigurationError
from smforge.tables import expect, read_toml

DEFAULT = "default"
_TASK_KEYS = {"cmd", "depends-on", "description", "env"}
# What pixi's task shell or its templates would expand; a plain program call would pass it on.
_SHELL = frozenset("$&|;<>{}*`")


@dataclass(frozen=True)
class Task:
    """A command of plain words with variables of its own, after the tasks it depends on.

    `depends` holds (task, environment or None).
    """

    name: str
    words: tuple[str, ...]
    depends: tuple[tuple[str, str | None], ...]
    description: str
    env: dict[str, str]


@dataclass(frozen=True)
class Manifest:
    """A pixi.toml; `path` is absolute."""

    path: Path
    data: dict[str, Any]

    @property
    def root(self) -> Path:
        """The workspace: tasks run there, script paths start there."""
        return self.path.parent

    @property
    def environments(self) -> list[str]:
        """Names of the environments, `default` among them."""
        return list(dict.fromkeys([DEFAULT, *self.data.get("environments", {})]))

    def platforms(self, environment: str) -> list[str]:
        """Names of the platforms an environment is made for, in declaration order."""
        declared = self.data.get("workspace", {}).get("platforms", [])
        names = [item if isinstance(item, str) else item["name"] for item in declared]
        for feature in self._features(environment):
            if "platforms" in feature:
                names = [name for name in names if name in feature["platforms"]]
        return names

    def scripts(self, environment: str, platform: str) -> list[str]:
        """Activation scripts of an environment in the order they run, relative to the root."""
        found: list[str] = []
        for feature in self._features(environment):
            tables = [t.get("activation", {}) for t in _most_specific_first(feature, platform)]
            found += next((t["scripts"] for t in tables if "scripts" in t), [])
        return found

    def variables(self, environment: str, platform: str) -> dict[str, str]:
        """activation.env of an environment on a platform."""
        values: dict[str, str] = {}
        for feature in self._features(environment):
            for table in _most_specific_first(feature, platform):
                for name, value in table.get("activation", {}).get("env", {}).items():
                    values.setdefault(name, _literal(value, f"activation.env {name}"))
        return values

    def tasks(self, environment: str) -> dict[str, Task]:
        """Tasks of an environment by name."""
        tables = [feature.get("tasks", {}) for feature in reversed(self._features(environment))]
        merged = {name: value for table in tables for name, value in table.items()}
        return {name: _task(name, value) for name, value in merged.items()}

    def home_of(self, task: str) -> str | None:
        """The first environment that has `task`, the default one preferred; None if none has."""
        return next((name for name in self.environments if task in self.tasks(name)), None)

    def _features(self, environment: str) -> list[dict[str, Any]]:
        listed = self.data.get("environments", {}).get(environment, [])
        if isinstance(listed, dict):
            raise ConfigurationError(
                f"pixi.toml: environment '{environment}' is a table; the wheel engine reads a list"
            )
        known = self.data.get("feature", {})
        if missing := [name for name in listed if name not in known]:
            raise ConfigurationError(
                f"pixi.toml: environment '{environment}' names no known feature: {missing[0]}"
            )
        return [*(known[name] for name in listed), self.data]


def find(given: str | None, start: Path, own: Path) -> Manifest:
    """The manifest a command means: the one given, else pixi.toml in or above `start`, else `own`.

    Raises ConfigurationError if there is none, or it holds no pins for this engine.
    """
    if given:
        path = start / given
        path = path / "pixi.toml" if path.is_dir() else path
    else:
        above = [folder / "pixi.toml" for folder in (start, *start.parents)]
        path = next((file for file in above if file.is_file()), own / "pixi.toml")
    path = path.resolve()
    manifest = Manifest(path, read_toml(path))
    if not (manifest.root / "envs" / "wheels").is_dir():
        raise ConfigurationError(
            f"{path} is no smforge workspace (envs/wheels is missing): use pixi for it"
        )
    return manifest


def _most_specific_first(feature: dict[str, Any], platform: str) -> Iterator[dict[str, Any]]:
    """The feature's tables for a platform: later target tables first, its own table last."""
    subdir = "-".join(platform.split("-")[:2])
    families = {subdir.split("-")[0], "win" if subdir.startswith("win") else "unix"}
    for selector, table in reversed(feature.get("target", {}).items()):
        if selector in families | {subdir} or fnmatch.fnmatchcase(platform, selector):
            yield table
    yield feature


def _task(name: str, value: object) -> Task:
    where = f"pixi.toml: task '{name}'"
    if isinstance(value, list):
        value = {"depends-on": value}
    value = {"cmd": value} if isinstance(value, str) else value
    table: dict[str, Any] = expect(dict, value, where)
    if unknown := sorted(set(table) - _TASK_KEYS):
        raise ConfigurationError(f"{where}: the wheel engine does not know '{unknown[0]}'")
    command = table.get("cmd", "")
    words = command if isinstance(command, list) else shlex.split(_literal(command, where))
    depends = table.get("depends-on", [])
    depends = [depends] if isinstance(depends, str | dict) else depends
    return Task(
        name=name,
        words=tuple(words),
        depends=tuple((d, None) if isinstance(d, str) else _dependency(d, where) for d in depends),
        description=table.get("description", ""),
        env={key: _literal(text, where) for key, text in table.get("env", {}).items()},
    )


def _dependency(table: dict[str, Any], where: str) -> tuple[str, str | None]:
    if unknown := sorted(set(table) - {"task", "environment"}):
        raise ConfigurationError(f"{where}: the wheel engine does not know '{unknown[0]}'")
    return table["task"], table.get("environment")


def _literal(text: str, where: str) -> str:
    if found := _SHELL & set(text):
        raise ConfigurationError(
            f"{where}: '{min(found)}' is shell syntax, which the wheel engine does not run"
        )
    return text
