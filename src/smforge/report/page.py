"""The self-contained page: no script, no font, no address to fetch; right in light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from smforge.report import plots
from smforge.report.text import by_case, cell_mark, matrices, short, tiers_of, verdict
from smforge.verify.result import CaseResult, CellResult, Report

STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfc; --ink: #1d2126; --soft: #5c6570;
  --line: #d9dde2; --roof: #8a929c; --triton: #2563a8; --cuda: #b0530c; --compile: #2f7d4f;
  --good: #1c6b3c; --bad: #b3261e; --wait: #7a5b00; --shade: #f2f4f6; }
@media (prefers-color-scheme: dark) { :root { --paper: #16191d; --ink: #e8eaed; --soft: #a3acb7;
  --line: #343a42; --roof: #7d8691; --triton: #6fb0f0; --cuda: #f0a05a; --compile: #74cf98;
  --good: #7fd6a0; --bad: #ff8a80; --wait: #e5c35c; --shade: #1f242a; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 11px system-ui, "Segoe UI", sans-serif;
  paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
svg .tick, svg .axis, svg .rooflabel { fill: var(--soft); }
.grid, .leader { stroke: var(--line); } .roof { stroke: var(--roof); stroke-width: 1.5; }
.dot.triton, .bar.triton { fill: var(--triton); } .dot.cuda, .bar.cuda { fill: var(--cuda); }
.dot.compile, .bar.compile { fill: var(--compile); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .28rem .6rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th { color: var(--soft); font-weight: 600; }
tr:hover td { background: var(--shade); }
.passed { color: var(--good); } .failed { color: var(--bad); font-weight: 600; }
.slow, .not-run, .limit { color: var(--wait); }
"""


def page(reports: Mapping[str, Report], differences: Sequence[str]) -> str:
    """One page of one result, or of several with what differs first."""
    body = [_differences(reports, differences)] if len(reports) > 1 else []
    body += [_report(name, report) for name, report in reports.items()]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'  # or the browser asks for favicon.ico
        f"<title>smforge verify</title><style>{STYLE}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _differences(reports: Mapping[str, Report], differences: Sequence[str]) -> str:
    names = dict.fromkeys(case.name for report in reports.values() for case in report.cases)
    rows = []
    for name in names:
        found = [next((c for c in r.cases if c.name == name), None) for r in reports.values()]
        rows.append([_td(name), *(_td(short(case), case.result if case else "") for case in found)])
    text = _table(["kernel", *reports], rows) if rows else ""
    told = _list(differences) if differences else "<p>The machines are alike.</p>"
    return f"<h1>{len(reports)} machines</h1><h2>Differences</h2>{told}{text}"


def _report(name: str, report: Report) -> str:
    gpus = ", ".join(gpu["name"] for gpu in report.machine.get("gpus", [])) or "no GPU"
    driver = report.machine.get("driver", {}).get("version", "")
    versions = ", ".join(f"{package} {value}" for package, value in report.versions.items())
    lines = [
        f"<h1>{escape(gpus)}, tier {escape(report.tier)}</h1>",
        f'<p class="{"failed" if report.failed else "passed"}">{escape(verdict(report))}</p>',
        f'<p class="soft">{escape(name)} · smforge {escape(report.smforge)} · {escape(report.date)}'
        f"{f' · driver {escape(driver)}' if driver else ''} · {escape(versions)}"
        f"{f' · lock {escape(report.lock[:12])}' if report.lock else ''}</p>",
    ]
    if report.findings:
        lines.append(f"<h2>Findings</h2>{_list(report.findings)}")
    return "".join([*lines, *_plots(report), _cases(report.cases), *_matrices(report.cells)])


def _plots(report: Report) -> list[str]:
    copy = report.ceilings.get("copy GB/s", 0.0)
    peaks = {
        name.split()[0]: value
        for name, value in report.ceilings.items()
        if name.endswith("TFLOP/s")
    }
    drawn = {
        "Roofline": plots.roofline(report.cases, copy, peaks),
        "Share of the ceiling": plots.bars(report.cases),
        "Compile time": plots.compile_times(report.cases),
    }
    return [f"<h2>{title}</h2>{svg}" for title, svg in drawn.items() if svg]


_HEAD = ("kernel", "result", "relative error", "allowed", "rate", "ceiling", "share",
         "median ms", "p10", "p90", "repeats", "configuration")  # fmt: skip


def _cases(cases: Sequence[CaseResult]) -> str:
    if not cases:
        return ""
    return f"<h2>Kernels</h2>{_table(_HEAD, [_case(case) for case in cases])}"


def _case(case: CaseResult) -> list[str]:
    ceiling = f"{case.ceiling_name} {case.ceiling:.4g}" if case.ceiling else ""
    share = f"{case.fraction:.1%}" if case.fraction else ""
    error = f"{case.error:.1e}" if case.error is not None else ""
    times = [f"{t:.4f}" if t is not None else "" for t in
             (case.median_ms, case.p10_ms, case.p90_ms)]  # fmt: skip
    rate = f"{case.value:.4g} {case.unit}" if case.value is not None else ""
    last = case.config if case.result in ("passed", "slow") else case.reason
    texts = [error, f"{case.tolerance:.1e}", rate, ceiling, share, *times, str(case.repeats), last]
    return [_td(case.name), _td(case.result, case.result), *(_td(text) for text in texts)]


def _matrices(cells: Sequence[CellResult]) -> list[str]:
    return [_matrix(title, found) for title, found in matrices(cells)]


def _matrix(title: str, cells: Sequence[CellResult]) -> str:
    names = tiers_of(cells)
    rows = [
        [_td(case), *(_cell(row.get(tier, [])) for tier in names)]
        for case, row in by_case(cells).items()
    ]
    legend = "(ok) compiles, not supported by Inductor; limit: the compiler is known not to."
    return f'<h2>{escape(title)}</h2>{_table(["kernel", *names], rows)}<p class="soft">{legend}</p>'


def _cell(cells: Sequence[CellResult]) -> str:
    mark = cell_mark(cells)
    kind = {"ok": "passed", "(ok)": "soft", "FAIL": "failed", "limit": "limit",
            "not run": "not-run"}.get(mark, "soft")  # fmt: skip
    lines = [f"{c.tool} {c.version}: {c.result} {c.reason or c.note}, {c.registers} registers, "
             f"{c.spills} bytes spilled, {c.shared} bytes shared" for c in cells]  # fmt: skip
    return f'<td class="{kind}" title="{escape(chr(10).join(lines))}">{mark}</td>'


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _td(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
