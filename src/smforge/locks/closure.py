"""Is a set of locked packages closed: requirements, depends, constrains met, and none spare?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rattler import PackageRecord

from smforge.locks.read import Package
from smforge.locks.records import match_spec


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


def spec_name(spec: str) -> str:
    """The package name that a match spec is about."""
    end = next((i for i, char in enumerate(spec) if char in " [=<>!~"), len(spec))
    return spec[:end].lower()


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
    queue = [("pixi.toml", spec, text) for spec, text in wanted]
    seen: set[str] = set()
    while queue:
        owner, spec, text = queue.pop()
        name = spec_name(spec)
        if name not in records:
            found.append(Finding("missing", owner, text, ""))
        elif not matcher.matches(spec, records[name]):
            found.append(Finding("unmet", owner, text, str(records[name].version)))
        if name in by_name and name not in seen:
            seen.add(name)
            queue += [(by_name[name].label, spec, spec) for spec in records[name].depends]
    found += [Finding("spare", name, "", by_name[name].label) for name in by_name.keys() - seen]
    found += _constraints(by_name.values(), records, matcher)
    return sorted(found, key=lambda item: (item.kind, item.package, item.spec))


def _constraints(
    packages: Iterable[Package], records: Mapping[str, PackageRecord], matcher: Matcher
) -> list[Finding]:
    return [
        Finding("constraint", package.label, spec, str(records[name].version))
        for package in packages
        for spec in package.record.constrains
        if (name := spec_name(spec)) in records and not matcher.matches(spec, records[name])
    ]
