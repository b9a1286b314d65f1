"""What ran where: load and validate envs/evidence.toml."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path

from smforge import tiers
from smforge.errors import ConfigurationError
from smforge.tables import build, data_file, read_toml, shown

HOW = ("gpu", "aot", "wine", "cpu", "channel", "lock", "pixi")
RESULTS = ("passed", "failed", "not-run")


@dataclass(frozen=True)
class Run:
    """One check of one tier on one platform: how it ran, its result, and the figures it gave."""

    tier: str
    platform: str
    check: str
    how: str
    result: str
    date: str
    device: str
    reason: str = ""
    case: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)


def load(path: Path | None = None) -> list[Run]:
    """The rows of `path`, in file order.

    Raises:
        ConfigurationError: one line that names file, row and key.
    """
    path = path or data_file("evidence.toml")
    raw, where = read_toml(path), shown(path)
    if set(raw) - {"run"}:
        raise ConfigurationError(f"{where}: unknown key '{min(set(raw) - {'run'})}'")
    rows = []
    for number, table in enumerate(raw.get("run", []), 1):
        label = f"{where}: [[run]] {number}"
        row = build(Run, table, label)
        check(row, label)
        rows.append(row)
    return rows


def check(row: Run, label: str) -> None:
    """Known words, a real date, and a reason for everything that did not pass."""
    tiers.one_of(row.tier, tuple(tiers.load().tiers), f"{label} key 'tier'")
    tiers.one_of(row.platform, tuple(tiers.SUBDIRS.values()), f"{label} key 'platform'")
    tiers.one_of(row.how, HOW, f"{label} key 'how'")
    tiers.one_of(row.result, RESULTS, f"{label} key 'result'")
    try:
        datetime.date.fromisoformat(row.date)
    except ValueError:
        raise ConfigurationError(
            f"{label} key 'date': found '{row.date}', expected a date such as 2026-11-21"
        ) from None
    if row.result != "passed" and not row.reason:
        raise ConfigurationError(f"{label}: a row that is '{row.result}' needs a reason")
