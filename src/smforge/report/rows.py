"""A result of `verify` as rows of envs/evidence.toml, to be looked at and appended."""

from __future__ import annotations

import json
from collections.abc import Mapping

from smforge import tiers
from smforge.report.text import by_case
from smforge.verify.result import CellResult, Report

OWN = "the machine's own Python, tier stack not run"


def rows(report: Report) -> str:
    """TOML text: a row a tier of the matrix; rate and fraction rows of a card; a row of a CPU."""
    found = [_matrix_row(report, tier) for tier in dict.fromkeys(c.tier for c in report.cells)]
    timed = [case for case in report.cases if case.value is not None]
    if timed:
        where = "in its tier" if report.lock else OWN
        fractions = {c.name: round(c.fraction, 3) for c in timed if c.fraction}
        rates = {c.name: round(c.value or 0.0, 1) for c in timed}
        found.append(_run_row(report, f"fraction of ceiling ({where})", fractions))
        found.append(_run_row(report, f"GB/s or TFLOP/s ({where})", rates))
    return "\n".join(found)


def _matrix_row(report: Report, tier: str) -> str:
    cells = [cell for cell in report.cells if cell.tier == tier]
    figures = {
        case: int(all(c.result == "passed" for c in row[tier]))
        for case, row in by_case(cells).items()
        if all(c.result != "not-run" for c in row[tier])
    }
    broken = [f"{c.case}: {c.reason}" for c in cells if c.promised and c.result == "failed"]
    interpreted = tier == "cpu"
    return _row(
        {
            "tier": tier, "platform": "linux-64", "check": "verify",
            "case": "interpreter" if interpreted else "compiled without the card",
            "how": "cpu" if interpreted else "aot",
            "result": "failed" if broken else "passed", "reason": "; ".join(broken),
            "date": report.date[:10], "device": "no GPU, Linux",
        },
        _tools(cells), figures,
    )  # fmt: skip


def _tools(cells: list[CellResult]) -> dict[str, str]:
    """Versions by kind of toolchain: {"triton": "3.7.1", "nvrtc": "11.8, 12.9"}."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        kind = "triton" if cell.tool == "interpreter" else cell.tool.split("-")[0]
        if cell.version and cell.version not in found.setdefault(kind, []):
            found[kind].append(cell.version)
    return {kind: ", ".join(sorted(versions)) for kind, versions in found.items()}


def _run_row(report: Report, case: str, figures: Mapping[str, float]) -> str:
    gpus = ", ".join(gpu["name"] for gpu in report.machine.get("gpus", []))
    driver = report.machine.get("driver", {}).get("version", "")
    device = f"{gpus}, driver {driver}" if report.mode == "gpu" else "a CPU"
    windows = report.machine.get("system") == "Windows"
    return _row(
        {
            "tier": report.tier, "platform": tiers.SUBDIRS["win" if windows else "linux"],
            "check": "verify", "case": case, "how": report.mode,
            "result": "failed" if report.failed else "passed", "reason": "; ".join(report.failed),
            "date": report.date[:10], "device": device,
        },
        {name: report.versions[name] for name in ("torch", "triton") if name in report.versions},
        figures,
    )  # fmt: skip


def _row(texts: dict[str, str], versions: Mapping[str, str], figures: Mapping[str, float]) -> str:
    lines = [f"{key} = {_text(value)}" for key, value in texts.items() if value]
    pairs = ", ".join(f"{name} = {_text(value)}" for name, value in versions.items())
    numbers = ", ".join(f"{_text(name)} = {value}" for name, value in figures.items())
    return "\n".join(["[[run]]", *lines, f"versions = {{ {pairs} }}",
                      f"figures = {{ {numbers} }}", ""])  # fmt: skip


def _text(value: str) -> str:
    """A TOML basic string: JSON's escapes are a subset of TOML's."""
    return json.dumps(value, ensure_ascii=False)
