"""Is pixi.lock what pixi.toml asks for? Answered without a channel, as `pixi lock --check` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from smforge.locks.closure import Finding, Matcher, findings
from smforge.locks.manifest import SUBDIR_DEFAULTS, Manifest, Platform, Requirement
from smforge.locks.read import Lock, Package, with_version
from smforge.locks.records import virtual_records
from smforge.locks.run_exports import run_depends
from smforge.locks.sources import Variant, render

_WORDS = {
    "missing": "{package} requires {spec}: not locked",
    "unmet": "{package} requires {spec}: {found} is locked",
    "constraint": "{package} forbids anything but {spec}: {found} is locked",
    "spare": "{found} is locked, but nothing requires it",
    "duplicate": "{found} is locked beside another {package}",
}


@dataclass(frozen=True)
class Stale:
    """One thing that does not fit, and the environment on a platform where it was found."""

    text: str
    where: str = ""


@dataclass
class Checker:
    """Holds a lock against a manifest; remembers rendered recipes and matched specs."""

    manifest: Manifest
    lock: Lock
    _answers: dict[object, list[str]] = field(default_factory=dict)
    _matcher: Matcher = field(default_factory=Matcher)
    _variants: dict[tuple[str, str, str], list[Variant]] = field(default_factory=dict)
    _sources: dict[tuple[int, str], list[str]] = field(default_factory=dict)

    def problems(self) -> list[Stale]:
        """Everything that is stale; empty when the lock is up to date."""
        found = [Stale(f"environment {name} is not locked") for name in self._unlocked()]
        for name in self._gone():
            found.append(Stale(f"environment {name} is locked, but pixi.toml has none"))
        for environment, platform, requirements in self.manifest.targets():
            if environment.name in self.lock.environments:
                where = f"{environment.name} on {platform.name}"
                lines = self.target(environment.name, platform, requirements)
                found += [Stale(line, where) for line in lines]
        return found + [Stale(line) for line in self._spare_platforms()]

    def target(
        self, environment: str, platform: Platform, requirements: tuple[Requirement, ...]
    ) -> list[str]:
        """What is stale in one environment on one platform."""
        locked = self.lock.environments.get(environment)
        packages = self.lock.find(environment, platform)
        if locked is None or packages is None:
            wanted = ", ".join(platform.virtual_packages)
            return [f"no locked platform is {platform.subdir} with {wanted}"]
        if locked.channels != self.manifest.channels:
            return [f"locked from {', '.join(locked.channels)}, "
                    f"pixi.toml has {', '.join(self.manifest.channels)}"]  # fmt: skip
        if locked.options:
            return [f"locked with solve options {dict(locked.options)}, pixi.toml has none"]
        question = (platform.key, requirements, tuple(package.key for package in packages))
        if question not in self._answers:
            self._answers[question] = self._packages(packages, platform, requirements)
        return self._answers[question]

    def _unlocked(self) -> list[str]:
        return [e.name for e in self.manifest.environments
                if e.requirements and e.name not in self.lock.environments]  # fmt: skip

    def _gone(self) -> list[str]:
        known = {e.name for e in self.manifest.environments if e.requirements}
        return sorted(self.lock.environments.keys() - known)

    def _spare_platforms(self) -> Iterator[str]:
        for environment in self.manifest.environments:
            locked = self.lock.environments.get(environment.name)
            wanted = {platform.key for platform in environment.requirements}
            for platform in locked.packages if locked else ():
                if platform.key not in wanted:
                    content = ", ".join(platform.virtual_packages)
                    yield (f"{environment.name} is locked for {platform.subdir} with {content}, "
                           "which pixi.toml does not ask for")  # fmt: skip

    def _packages(
        self,
        packages: tuple[Package, ...],
        platform: Platform,
        requirements: tuple[Requirement, ...],
    ) -> list[str]:
        paths = {item.name: item.path for item in requirements}
        lines: list[str] = []
        resolved: list[Package] = []
        for package in packages:
            asked = paths.get(package.name, "")
            if package.path == asked:
                found, problems = self._source(package, platform.subdir) if asked else (package, [])
                resolved.append(found)
                lines += problems
            else:
                resolved.append(package)
                lines.append(
                    f"{package.name} comes from {package.path or 'the channel'}, "
                    f"pixi.toml takes it from {asked or 'the channel'}"
                )
        wanted = [(item.spec, item.text) for item in requirements]
        virtual = virtual_records(platform.virtual_packages)
        return lines + _lines(findings(wanted, resolved, virtual, self._matcher))

    def resolved(self, package: Package, subdir: str) -> Package:
        """The package, a source package with the version and build that its recipe gives it."""
        return self._source(package, subdir)[0] if package.path else package

    def _source(self, package: Package, subdir: str) -> tuple[Package, list[str]]:
        """The package with its recipe's version, and where lock and recipe disagree."""
        key = (package.path, package.name, subdir)
        if key not in self._variants:
            self._variants[key] = render(self._root, package.path, package.name, subdir)
        values = package.entry.get("variants", {})
        variant = next((v for v in self._variants[key] if dict(v.values) == values), None)
        if variant is None:
            return package, [f"{package.path} has no variant {dict(values)} any more"]
        memo = (id(package), subdir)
        if memo not in self._sources:
            self._sources[memo] = self._recipe(package, variant, subdir)
        return with_version(package, variant.version, variant.build), self._sources[memo]

    @property
    def _root(self) -> Path:
        return self.manifest.path.parent

    def _recipe(self, package: Package, variant: Variant, subdir: str) -> list[str]:
        host = [item.entry for item in self.lock.needed(package, "host")]
        entry = package.entry
        pairs = [
            ("depends", run_depends(variant, host), entry.get("depends", [])),
            ("constrains", list(variant.constrains), entry.get("constrains", [])),
            ("license", [variant.license or ""], [entry.get("license", "")]),
        ]
        lines = [
            f"{package.path}: {what} is now {', '.join(now)}; locked is {', '.join(locked)}"
            for what, now, locked in pairs
            if sorted(now) != sorted(locked)
        ]
        defaults = [f"{name}={value}" for name, value in SUBDIR_DEFAULTS[subdir].items()]
        for kind, specs in (("build", variant.build_specs), ("host", variant.host_specs)):
            wanted = [(spec, spec) for spec in specs]
            locked = self.lock.needed(package, kind)
            found = findings(wanted, locked, virtual_records(defaults), self._matcher)
            lines += [f"{package.path}, {kind} environment: {line}" for line in _lines(found)]
        return lines


def _lines(found: list[Finding]) -> list[str]:
    return [_WORDS[item.kind].format(**vars(item)) for item in found]
