"""`smforge audit` as a library: what every locked environment holds, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from smforge import tiers
from smforge.locks import manifest, read
from smforge.locks.check import Checker
from smforge.locks.manifest import Platform
from smforge.locks.read import Package

TORCH = ("pytorch", "pytorch-kepler")
TRITON = ("triton", "triton-windows")


@dataclass(frozen=True)
class View:
    """One environment on one platform, as the rules see it."""

    environment: str
    platform: Platform
    tier: tiers.Tier | None  # None for a platform that is named after no tier
    packages: Mapping[str, Package]
    channels: tuple[str, ...]

    @property
    def stack(self) -> tiers.Stack | None:
        """What tiers.toml says is installed here."""
        return self.tier.stack[self.platform.subdir] if self.tier else None

    def first(self, *names: str) -> Package | None:
        """The first of the named packages that is locked here."""
        return next((self.packages[name] for name in names if name in self.packages), None)

    def minor(self, *names: str) -> tuple[int, int] | None:
        """Major and minor version of the first of the named packages."""
        package = self.first(*names)
        return minor(package) if package else None


@dataclass(frozen=True)
class Finding:
    """Something the audit found, in one or many places."""

    id: str  # stable for ever
    level: str  # "error", "warning" or "info"
    text: str
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One line of the table: a package set and the environments that hold it."""

    platform: str
    environments: tuple[str, ...]
    packages: int
    download: int  # bytes, of the packages whose size is known
    unknown_sizes: tuple[str, ...]
    pytorch: str
    cuda: str
    nvcc: str
    triton: str


@dataclass
class Audit:
    """The outcome: a table and its findings, errors first."""

    rows: list[Row]
    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.level == "error" for finding in self.findings)


def audit(manifest_path: Path) -> Audit:
    """Audit the pixi.lock beside `manifest_path`.

    Raises:
        ConfigurationError: the manifest, the lock or a recipe cannot be read.
    """
    from smforge.locks.audit_rules import lock_rules, view_rules

    workspace = manifest.load(manifest_path)
    lock = read.load(manifest_path.with_name("pixi.lock"))
    views = list(_views(workspace, lock))
    distinct: dict[object, list[View]] = {}
    for view in views:
        held = tuple(package.key for package in view.packages.values())
        distinct.setdefault((view.platform.name, held), []).append(view)
    found: list[Finding] = [
        Finding(item.id, item.level, item.text, (_where(same),))
        for same in distinct.values()
        for item in view_rules(same[0])
    ]
    found += lock_rules(workspace, lock)
    return Audit([_row(same) for same in distinct.values()], _merged(found))


def _views(workspace: manifest.Manifest, lock: read.Lock) -> Iterable[View]:
    checker = Checker(workspace, lock)
    table = tiers.load()
    for environment, platform, _ in workspace.targets():
        locked = lock.find(environment.name, platform)
        if locked is None:
            continue  # `lock --check` and rule A01 name it
        packages = {p.name: checker.resolved(p, platform.subdir) for p in locked}
        tier = table.tiers.get(platform.name.removeprefix(f"{platform.subdir}-"))
        yield View(environment.name, platform, tier, packages, workspace.channels)


def _row(views: list[View]) -> Row:
    view = views[0]
    packages = view.packages.values()
    return Row(
        platform=view.platform.name,
        environments=tuple(item.environment for item in views),
        packages=len(packages),
        download=sum(p.entry.get("size", 0) for p in packages),
        unknown_sizes=tuple(sorted(p.name for p in packages if "size" not in p.entry)),
        pytorch=_version(view, *TORCH),
        cuda=_version(view, "cuda-version") or (view.stack.cuda if view.stack else ""),
        nvcc=_version(view, "cuda-nvcc-tools"),
        triton=_version(view, *TRITON),
    )


def _version(view: View, *names: str) -> str:
    package = view.first(*names)
    return str(package.record.version) if package else ""


def _where(views: list[View]) -> str:
    names = [view.environment for view in views]
    return f"{views[0].platform.name} ({', '.join(names)})"


def _merged(found: list[Finding]) -> list[Finding]:
    """One finding a text, errors first, then by id."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for item in found:
        places.setdefault((item.id, item.level, item.text), []).extend(item.where)
    merged = [Finding(*key, tuple(where)) for key, where in places.items()]
    levels = ["error", "warning", "info"]
    return sorted(merged, key=lambda item: (levels.index(item.level), item.id, item.text))


def minor(package: Package) -> tuple[int, int]:
    """Major and minor version of a package: (12, 8) for 12.8.93."""
    numbers = [int(number) for number in re.findall(r"\d+", str(package.record.version))[:2]]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0
