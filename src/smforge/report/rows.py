"""A result of `verify` as rows of envs/evidence.toml, to be looked at and appended."""

from __future__ import annotations

import json
from collections.abc import Mapping

from smforge import tiers
from smforge.report.text import by_case, matrices, tiers_of
from smforge.verify.result import CellResult, Report

_KINDS = {"interpreter": "triton", "wine-triton": "triton-windows", "wine-ptxas": "ptxas"}
OWN = "the machine's own Python, tier stack not run"


def rows(report: Report) -> str:
    """TOML text: a row a tier of the matrix; rate and fraction rows of a card; a row of a CPU."""
    found = []
    for _, matrix in matrices(report.cells):
        found += [_matrix_row(report, tier, matrix) for tier in tiers_of(matrix)
                  if not _ptxas_alone([c for c in matrix if c.tier == tier])]  # fmt: skip
    timed = [case for case in report.cases if case.value is not None]
    if timed:
        where = "in its tier" if report.lock else OWN
        fractions = {c.name: round(c.fraction, 3) for c in timed if c.fraction}
        rates = {c.name: round(c.value or 0.0, 1) for c in timed}
        found.append(_run_row(report, f"fraction of ceiling ({where})", fractions))
        found.append(_run_row(report, f"GB/s or TFLOP/s ({where})", rates))
    return "\n".join(found)


def _matrix_row(report: Report, tier: str, matrix: list[CellResult]) -> str:
    cells = [cell for cell in matrix if cell.tier == tier]
    figures = {
        case: int(all(c.result == "passed" for c in row[tier]))
        for case, row in by_case(cells).items()
        if all(c.result != "not-run" for c in row[tier])
    }
    broken = [f"{c.case}: {c.reason}" for c in cells if c.promised and c.result == "failed"]
    result, reason = ("failed" if broken else "passed"), "; ".join(broken)
    if not figures:
        result, reason = "not-run", cells[0].reason
    return _row(
        {
            "tier": tier, **_where(cells[0]), "result": result, "reason": reason,
            "date": report.date[:10], "device": _device(report, cells[0]),
        },
        _tools(cells), figures,
    )  # fmt: skip


def _ptxas_alone(cells: list[CellResult]) -> bool:
    """Whether nothing but ptxas.exe ran: the Windows stack has no Triton, so it proves no stack."""
    return all(cell.tool.startswith("wine-ptxas-") for cell in cells)


def _where(cell: CellResult) -> dict[str, str]:
    """Platform, check, case and way of the row of the matrix that such a cell is in."""
    where = {"platform": "linux-64", "check": "verify", "case": "compiled without the card"}
    if cell.tool.startswith("wine-"):
        case = "compiled by the Windows binaries"
        return where | {"platform": "win-64", "case": case, "how": "wine"}
    if cell.tier == "cpu":
        return where | {"case": "interpreter", "how": "cpu"}
    return where | {"how": "aot"}


def _device(report: Report, cell: CellResult) -> str:
    if not cell.tool.startswith("wine-"):
        return "no GPU, Linux"
    return f"no GPU, Wine {report.versions.get('wine', '')}, Windows CPython 3.11"


def _tools(cells: list[CellResult]) -> dict[str, str]:
    """Versions by kind of toolchain: {"triton": "3.7.1", "nvrtc": "11.8, 12.9"}."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        kind = _KINDS.get(cell.tool.rpartition("-")[0] or cell.tool, cell.tool.split("-")[0])
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
