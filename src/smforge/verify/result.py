"""The result of `verify`: what verify.json holds, versioned. The JSON schema lies beside it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smforge.errors import ConfigurationError

SCHEMA = 1


@dataclass(frozen=True)
class CaseResult:
    """One kernel that ran (or was to run) on this machine.

    result: "passed", "failed", "slow" (right, but below the measured threshold) or "not-run".
    Times are milliseconds, `value` and `ceiling` are in `unit`, `fraction` is value / ceiling.
    """

    name: str
    language: str
    dtype: str
    result: str
    reason: str = ""
    error: float | None = None
    tolerance: float = 0.0
    size: dict[str, int] = field(default_factory=dict)
    config: str = ""
    unit: str = ""
    value: float | None = None
    ceiling_name: str = ""
    ceiling: float | None = None
    fraction: float | None = None
    threshold: float | None = None
    median_ms: float | None = None
    p10_ms: float | None = None
    p90_ms: float | None = None
    repeats: int = 0
    warm_up: int = 0
    flushed: bool = False
    bytes: int = 0
    flops: int = 0
    compile_cold_s: float | None = None
    compile_warm_s: float | None = None


@dataclass(frozen=True)
class CellResult:
    """One kernel compiled for one tier without its card."""

    tier: str
    case: str
    tool: str
    promised: bool
    result: str
    reason: str = ""
    note: str = ""
    version: str = ""
    seconds: float = 0.0
    registers: int = 0
    spills: int = 0
    shared: int = 0


@dataclass(frozen=True)
class Report:
    """Everything one run of `verify` found out."""

    date: str
    smforge: str
    tier: str
    mode: str  # "gpu", "cpu" or "no-gpu"
    machine: dict[str, Any]
    versions: dict[str, str]
    lock: str = ""
    ceilings: dict[str, float] = field(default_factory=dict)
    cases: tuple[CaseResult, ...] = ()
    cells: tuple[CellResult, ...] = ()
    findings: tuple[str, ...] = ()
    seconds: float = 0.0
    schema: int = SCHEMA

    @property
    def failed(self) -> list[str]:
        """Names of what is wrong: failed cases, and cells whose promise is broken."""
        cases = [case.name for case in self.cases if case.result == "failed"]
        cells = [c for c in self.cells if c.promised and c.result == "failed"]
        return cases + [f"{cell.case} for {cell.tier} ({cell.tool})" for cell in cells]

    @property
    def incomplete(self) -> list[str]:
        """Names of what did not run or was slow: with --strict, these fail too."""
        cases = [case.name for case in self.cases if case.result in ("slow", "not-run")]
        cells = [c for c in self.cells if c.promised and c.result == "not-run"]
        return cases + [f"{cell.case} for {cell.tier} ({cell.tool})" for cell in cells]


def to_json(report: Report) -> str:
    """The text of verify.json."""
    return json.dumps(dataclasses.asdict(report), indent=1, allow_nan=False) + "\n"


def load(path: Path) -> Report:
    """A report from verify.json, or from the folder that holds it.

    Raises:
        ConfigurationError: the file is missing, no JSON, or of another schema.
    """
    file = path / "verify.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ConfigurationError(f"{file}: not valid JSON: {error}") from None
    found = data.get("schema") if isinstance(data, dict) else None
    if found != SCHEMA:
        raise ConfigurationError(f"{file}: schema is {found!r}, this smforge reads {SCHEMA}")
    try:
        data["cases"] = tuple(CaseResult(**case) for case in data["cases"])
        data["cells"] = tuple(CellResult(**cell) for cell in data["cells"])
        data["findings"] = tuple(data["findings"])
        return Report(**data)
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"{file}: not a result of verify: {error}") from None
