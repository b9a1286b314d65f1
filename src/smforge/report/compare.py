"""Which machines differ: versions, locks, results, and speed of the same card."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from smforge.verify.result import CaseResult, Report

SPEED = 0.10  # the same card is expected within this share of the median


def compare(reports: Mapping[str, Report]) -> list[str]:
    """One line a difference, naming the machines; empty for machines that are alike."""
    if len(reports) < 2:
        return []
    found = []
    for what, values in _facts(reports).items():
        found += _differing(what, values)
    return found + _slower(reports)


def _facts(reports: Mapping[str, Report]) -> dict[str, dict[str, str]]:
    """What should be equal everywhere, by machine."""
    facts: dict[str, dict[str, str]] = {
        "tier": {name: report.tier for name, report in reports.items()},
        "lock": {name: report.lock for name, report in reports.items()},
        "driver": {n: r.machine.get("driver", {}).get("version", "") for n, r in reports.items()},
    }
    packages = dict.fromkeys(p for report in reports.values() for p in report.versions)
    for package in packages:
        facts[package] = {n: r.versions.get(package, "") for n, r in reports.items()}
    cases = dict.fromkeys(case.name for report in reports.values() for case in report.cases)
    for case in cases:
        facts[case] = {n: _result(r.cases, case) for n, r in reports.items()}
    cells = dict.fromkeys((c.case, c.tier, c.tool) for r in reports.values() for c in r.cells)
    for key in cells:
        values = {n: _cell(r, key) for n, r in reports.items()}
        facts[f"{key[0]} for {key[1]} ({key[2]})"] = values
    return facts


def _result(cases: Iterable[CaseResult], name: str) -> str:
    found = next((case.result for case in cases if case.name == name), "absent")
    return "passed" if found == "slow" else found  # speed is compared by numbers


def _cell(report: Report, key: tuple[str, str, str]) -> str:
    found = (c.result for c in report.cells if (c.case, c.tier, c.tool) == key)
    return next(found, "absent")


def _differing(what: str, values: Mapping[str, Hashable]) -> list[str]:
    groups: dict[Hashable, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    if len(groups) < 2:
        return []
    told = [f"{value or 'none'} ({', '.join(names)})" for value, names in groups.items()]
    return [f"{what}: {', '.join(told)}"]


def _slower(reports: Mapping[str, Report]) -> list[str]:
    """Machines more than SPEED below the fastest with the same card."""
    best: dict[tuple[str, str], tuple[float, str]] = {}
    rates = [
        (_card(report), case.name, case.value, name)
        for name, report in reports.items()
        for case in report.cases
        if case.value is not None and report.mode == "gpu"
    ]
    for card, case, value, name in rates:
        best[card, case] = max(best.get((card, case), (0.0, "")), (value, name))
    return [
        f"{case}: {name} reaches {value / best[card, case][0]:.0%} of {best[card, case][1]} "
        f"on the same card"
        for card, case, value, name in rates
        if value < (1 - SPEED) * best[card, case][0]
    ]


def _card(report: Report) -> str:
    return ", ".join(gpu["name"] for gpu in report.machine.get("gpus", []))
