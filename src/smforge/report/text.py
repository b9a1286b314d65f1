"""Results of `verify` as plain text: one machine's table, and several side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from smforge.verify.result import CaseResult, CellResult, Report


def table(report: Report) -> str:
    """One result, ending in the verdict."""
    parts = [_head(report)]
    if report.cases:
        parts.append(_grid(_CASE_HEAD, [_case_row(case) for case in report.cases]))
    parts += [f"{title}:\n{_matrix(cells)}" for title, cells in matrices(report.cells)]
    if report.findings:
        parts.append("\n".join(f"  - {line}" for line in report.findings))
    parts.append(verdict(report))
    return "\n\n".join(parts) + "\n"


def verdict(report: Report) -> str:
    """One line: what is wrong, or how much is right."""
    if report.failed:
        return f"FAILED: {', '.join(report.failed)}"
    right = sum(case.result in ("passed", "slow") for case in report.cases)
    compiled = sum(cell.result == "passed" for cell in report.cells)
    numbers = [f"{right} kernels right" if report.cases else "",
               f"{compiled} of {len(report.cells)} compiled" if report.cells else ""]  # fmt: skip
    said = ", ".join(number for number in numbers if number)
    late = f"; not run or slow: {', '.join(report.incomplete)}" if report.incomplete else ""
    return f"ok: {said} in {report.seconds:.0f} s{late}"


def _head(report: Report) -> str:
    gpus = ", ".join(gpu["name"] for gpu in report.machine.get("gpus", [])) or "no GPU"
    driver = report.machine.get("driver", {}).get("version", "")
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    ceilings = ", ".join(f"{name} {value:g}" for name, value in report.ceilings.items())
    lines = [
        f"smforge {report.smforge}, tier {report.tier}, {report.mode}, {report.date}",
        f"{gpus}{f', driver {driver}' if driver else ''}; {versions}",
        f"ceilings: {ceilings}" if ceilings else "",
    ]
    return "\n".join(line for line in lines if line)


_CASE_HEAD = ("kernel", "result", "error", "rate", "of ceiling", "median ms", "p10-p90",
              "compile s", "configuration")  # fmt: skip


def _case_row(case: CaseResult) -> tuple[str, ...]:
    if case.median_ms is None:
        return (case.name, case.result, _number(case.error), "", "", "", "", "", case.reason)
    share = f"{case.fraction:.0%} {case.ceiling_name}" if case.fraction else ""
    span = f"{case.p10_ms:.3f}-{case.p90_ms:.3f}"
    seconds = "/".join(f"{s:.1f}" for s in (case.compile_cold_s, case.compile_warm_s)
                       if s is not None)  # fmt: skip
    rate = f"{case.value:.4g} {case.unit}"
    return (case.name, case.result, _number(case.error), rate, share,
            f"{case.median_ms:.3f}", span, seconds, case.config)  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


WINDOWS = "Windows binaries under Wine (ptxas.exe, triton-windows), without the card"
MARKS = {"passed": "ok", "failed": "FAIL", "not-run": "not run"}


def cell_mark(cells: Sequence[CellResult]) -> str:
    """One word for a kernel and tier: the worst of its toolchains."""
    if not cells:
        return "-"
    worst = min(cells, key=lambda c: ("failed", "not-run", "passed").index(c.result))
    if worst.result == "failed" and not worst.promised:
        return "limit"
    if worst.result == "passed" and not worst.promised:
        return "(ok)"
    return MARKS[worst.result]


def tiers_of(cells: Iterable[CellResult]) -> list[str]:
    """The tiers of a matrix in its order."""
    return list(dict.fromkeys(cell.tier for cell in cells))


def by_case(cells: Iterable[CellResult]) -> dict[str, dict[str, list[CellResult]]]:
    """Cells by case, then by tier."""
    found: dict[str, dict[str, list[CellResult]]] = {}
    for cell in cells:
        found.setdefault(cell.case, {}).setdefault(cell.tier, []).append(cell)
    return found


def matrices(cells: Sequence[CellResult]) -> list[tuple[str, list[CellResult]]]:
    """The cells under their titles: this system's compilers, and Windows binaries under Wine."""
    windows = [cell for cell in cells if cell.tool.startswith("wine-")]
    others = [cell for cell in cells if not cell.tool.startswith("wine-")]
    titled = [("Compiled without the card", others), (WINDOWS, windows)]
    return [(title, found) for title, found in titled if found]


def _matrix(cells: Sequence[CellResult]) -> str:
    names = tiers_of(cells)
    rows = [
        (case, *(cell_mark(row.get(name, [])) for name in names))
        for case, row in by_case(cells).items()
    ]
    legend = "(ok): compiles, not supported by Inductor; limit: the compiler is known not to"
    return f"{_grid(('kernel', *names), rows)}\n{legend}"


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def side_by_side(reports: Mapping[str, Report], differences: Sequence[str]) -> str:
    """One column a machine: fractions of the ceilings; below it what differs."""
    cases = dict.fromkeys(case.name for report in reports.values() for case in report.cases)
    rows = [("tier", *(report.tier for report in reports.values()))]
    gpus = [", ".join(g["name"] for g in r.machine.get("gpus", [])) for r in reports.values()]
    rows.append(("GPU", *(gpu or "none" for gpu in gpus)))
    for name in cases:
        found = [next((c for c in r.cases if c.name == name), None) for r in reports.values()]
        rows.append((name, *(short(case) for case in found)))
    broken = [str(len([c for c in r.cells if c.promised and c.result == "failed"]))
              for r in reports.values()]  # fmt: skip
    if any(report.cells for report in reports.values()):
        rows.append(("broken promises", *broken))
    text = _grid(("", *reports), rows)
    told = [f"  - {line}" for line in differences] or ["  none"]
    return "\n".join([text, "", "differences:", *told])


def short(case: CaseResult | None) -> str:
    """A case in a few characters: its rate and fraction, or its result."""
    if case is None:
        return "-"
    if case.value is None:
        return case.result
    share = f" ({case.fraction:.0%})" if case.fraction else ""
    slow = " slow" if case.result == "slow" else ""
    return f"{case.value:.4g} {case.unit}{share}{slow}"
