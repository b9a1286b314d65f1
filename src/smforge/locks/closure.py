"""Is a set of locked packages closed: requirements, depends, constrains met, and none spare?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rattler import PackageRecord

from smforge.locks.read import Package
from smforge.locks.records import match_spec, spec_name


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a package set; `package` is who wants it."""

    kind: str  # "missing", "unmet", "constraint", "spare", "duplicate"
    package: str
    spec: str
    found: str  # what the lock has instead, "" for nothing


class Matcher:
    """Matches specs against records and remembers the answers, which repeat by the thousand."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, int], bool] = {}
        self._kept: list[PackageRecord] = []  # an id stays unique while its record lives

    def matches(self, spec: str, record: PackageRecord) -> bool:
        """Whether `record` meets `spec`."""
        key = (spec, id(record))
        if key not in self._answers:
            self._answers[key] = match_spec(spec).matches(record)
            self._kept.append(record)
        return self._answers[key]


def findings(
    wanted: Iterable[tuple[str, str]],
    packages: Iterable[Package],
    virtual: Mapping[str, PackageRecord],
    matcher: Matcher,
) -> list[Finding]:
    """What keeps `packages` from being exactly what `wanted` (spec, its text) asks for."""
    packages = list(packages)
    by_name = {package.name: package for package in packages}
    found = [
        Finding("duplicate", package.name, "", package.label)
        for package in packages
        if by_name[package.name] is not package
    ]
    records = {name: package.record for name, package in by_name.items()} | dict(virtual)
    queue: list[tuple[Package | None, str, str, str]] = [
        (None, spec_name(spec), spec, text) for spec, text in wanted
    ]
    seen: set[str] = set()
    while queue:
        owner, name, spec, text = queue.pop()
        if name not in records or not matcher.matches(spec, records[name]):
            kind, has = (
                ("unmet", str(records[name].version)) if name in records else ("missing", "")
            )
            found.append(Finding(kind, owner.label if owner else "pixi.toml", text, has))
        if name in by_name and name not in seen:
            seen.add(name)
            package = by_name[name]
            queue += [(package, needed, spec, spec) for needed, spec in package.depends]
    found += [Finding("spare", name, "", by_name[name].label) for name in by_name.keys() - seen]
    found += [
        Finding("constraint", package.label, spec, str(records[name].version))
        for package in by_name.values()
        for name, spec in package.constrains
        if name in records and not matcher.matches(spec, records[name])
    ]
    return sorted(found, key=lambda item: (item.kind, item.package, item.spec))
