"""From outcomes of the matrix to what a report holds: flat rows, and findings in words."""

from __future__ import annotations

from collections.abc import Iterable

from smforge.verify.cells import LIMITS, Outcome
from smforge.verify.result import CellResult
from smforge.verify.under_wine import is_wine


def cell_result(outcome: Outcome) -> CellResult:
    """The flat row of an outcome."""
    cell = outcome.cell
    return CellResult(
        tier=cell.tier, case=cell.case, tool=cell.tool, promised=cell.promised,
        result=outcome.result, reason=outcome.reason, note=cell.note, version=outcome.version,
        seconds=outcome.seconds, registers=outcome.figures.get("registers", 0),
        spills=outcome.figures.get("spills", 0), shared=outcome.figures.get("shared", 0),
    )  # fmt: skip


def findings(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """What a reader should know beyond the table."""
    found = []
    for outcome in outcomes:
        cell = outcome.cell
        where = f"{cell.case} for {cell.tier} ({cell.tool})"
        if outcome.broken:
            found.append(f"{where}: {outcome.reason}")
        elif is_wine(cell.tool):
            if outcome.result == "passed" and outcome.reason:
                found.append(f"{where}: {outcome.reason}")
        elif (cell.tier, cell.case) in LIMITS and outcome.result == "passed":
            found.append(f"{where} compiles now: its entry in LIMITS can go")
        elif outcome.result == "passed" and cell.promised and outcome.figures.get("spills"):
            found.append(f"{where} spills {outcome.figures['spills']} bytes of registers")
    return tuple(found)
