"""Plots as SVG text: a roofline, bars against the ceiling, compile times. Colours come from CSS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from smforge.verify.result import CaseResult

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 64, 24, 16, 46
FAMILIES = ("triton", "cuda", "compile")


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high`, on pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value, clipped to the axis."""
        clipped = min(max(value, self.low), self.high)
        share = math.log(clipped / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten on it."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


def roofline(cases: Sequence[CaseResult], copy_gb_s: float, peaks: dict[str, float]) -> str:
    """TFLOP/s over FLOP/byte, log-log: the copy's slope, each dtype's peak, a point a kernel.

    `peaks` are TFLOP/s by dtype. "" when nothing was timed.
    """
    points = [c for c in cases if c.median_ms and c.bytes and c.flops]
    if not points or not copy_gb_s:
        return ""
    height = 420
    xs, ys = [c.flops / c.bytes for c in points], [_tflops(c) for c in points]
    top = max([*peaks.values(), *ys]) * 1.6
    x = Axis(min(*xs, 1.0) / 2, max(*xs, 1000 * top / copy_gb_s) * 2, LEFT, WIDTH - RIGHT)
    y = Axis(min(*ys, copy_gb_s * x.low / 1000) / 2, top, height - BOTTOM, TOP)
    parts = [_grid(x, y, height), *_roofs(x, y, copy_gb_s, peaks)]
    parts += [_dot(case, x, y) for case in points]
    parts += _names(points, x, y, height)
    parts += _legend(points)
    return _svg(height, "Roofline: TFLOP/s over FLOP per byte", parts)


def _tflops(case: CaseResult) -> float:
    return case.flops / (case.median_ms or math.inf) / 1e9


def _grid(x: Axis, y: Axis, height: int) -> str:
    lines = []
    for tick in x.ticks:
        at = x.at(tick)
        lines.append(_line(at, TOP, at, height - BOTTOM, "grid"))
        lines.append(_text(at, height - BOTTOM + 18, f"{tick:g}", "tick", "middle"))
    for tick in y.ticks:
        at = y.at(tick)
        lines.append(_line(LEFT, at, WIDTH - RIGHT, at, "grid"))
        lines.append(_text(LEFT - 8, at + 4, f"{tick:g}", "tick", "end"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(_text(middle, height - 6, "operations per byte (FLOP/B)", "axis", "middle"))
    lines.append(_text(LEFT + 6, TOP + 12, "TFLOP/s", "axis", "start"))
    return "".join(lines)


def _roofs(x: Axis, y: Axis, copy_gb_s: float, peaks: dict[str, float]) -> list[str]:
    highest = max([*peaks.values(), y.high / 1.6])
    end = highest * 1000 / copy_gb_s
    start = max(x.low, y.low * 1000 / copy_gb_s)
    slope = _line(x.at(start), y.at(start * copy_gb_s / 1000), x.at(end), y.at(highest), "roof")
    middle = math.sqrt(start * end)
    label = _text(x.at(middle) - 8, y.at(middle * copy_gb_s / 1000) - 10,
                  f"device copy {copy_gb_s:.0f} GB/s", "rooflabel", "end")  # fmt: skip
    lines = [slope, label]
    together: dict[float, list[str]] = {}
    for dtype, peak in peaks.items():
        together.setdefault(peak, []).append(dtype)
    for peak, dtypes in together.items():
        at, knee = y.at(peak), x.at(peak * 1000 / copy_gb_s)
        lines.append(_line(knee, at, WIDTH - RIGHT, at, "roof"))
        text = f"{', '.join(dtypes)} {peak:.0f}"
        lines.append(_text(knee + 4, at - 5, text, "rooflabel", "start"))
    return lines


def _dot(case: CaseResult, x: Axis, y: Axis) -> str:
    title = f"{case.name}: {_tflops(case):.4g} TFLOP/s, {case.flops / case.bytes:.3g} FLOP/B"
    where = f'cx="{x.at(case.flops / case.bytes):.1f}" cy="{y.at(_tflops(case)):.1f}"'
    return (
        f'<circle {where} r="5" class="dot {case.language}"><title>{escape(title)}</title></circle>'
    )


def _names(cases: Sequence[CaseResult], x: Axis, y: Axis, height: int) -> list[str]:
    """Names beside the dots, from the top down, each moved until no other is in its way.

    Cases that differ in dtype alone share a name: "softmax fp16, bf16".
    """
    groups: list[list[CaseResult]] = []
    for case in sorted(cases, key=_tflops, reverse=True):
        for group in groups:
            near = abs(y.at(_tflops(case)) - y.at(_tflops(group[0]))) < 8
            if near and _stem(case) == _stem(group[0]):
                group.append(case)
                break
        else:
            groups.append([case])
    taken: list[tuple[float, float, float]] = []  # left, right, baseline
    parts = []
    for group in groups:
        dtypes = ", ".join(case.dtype for case in group)
        text = group[0].name if len(group) == 1 else f"{_stem(group[0])} {dtypes}"
        px = x.at(group[0].flops / group[0].bytes)
        py = y.at(_tflops(group[0]))
        wide = 6.2 * len(text)
        left = px - 14 - wide if px > WIDTH * 0.6 else px + 14
        ty = py + 4
        while any(left < r and left + wide > m and abs(ty - b) < 13 for m, r, b in taken):
            ty += 13 if ty + 13 < height - BOTTOM - 4 else -height / 3
        taken.append((left, left + wide, ty))
        end = left - 2 if left > px else left + wide + 2
        parts.append(_line(px, py, end, ty - 4, "leader"))
        parts.append(_text(left if left > px else left + wide, ty, text, "name",
                           "start" if left > px else "end"))  # fmt: skip
    return parts


def _stem(case: CaseResult) -> str:
    return case.name.removesuffix(f"-{case.dtype}")


def _legend(cases: Sequence[CaseResult]) -> list[str]:
    names = {"triton": "Triton", "cuda": "CUDA C++", "compile": "torch.compile"}
    parts = []
    for number, language in enumerate(f for f in FAMILIES if any(c.language == f for c in cases)):
        at = LEFT + 90 + 120 * number
        parts.append(f'<circle cx="{at}" cy="{TOP + 8}" r="5" class="dot {language}"/>')
        parts.append(_text(at + 10, TOP + 12, names[language], "axis", "start"))
    return parts


def bars(cases: Sequence[CaseResult]) -> str:
    """Each kernel's share of its ceiling, with a line at 100 %; "" when there is none."""
    rows = [
        (case.name, case.fraction, f"{case.fraction:.0%} of {case.ceiling_name}", case.language)
        for case in cases
        if case.fraction
    ]
    return _rows(rows, "Share of the ceiling measured in the same run", 1.0)


def compile_times(cases: Sequence[CaseResult]) -> str:
    """Seconds of the first launch, which compiles; "" when none was measured."""
    rows = []
    for case in cases:
        if case.compile_cold_s:
            warm = case.compile_warm_s
            said = f"{case.compile_cold_s:.2f} s"
            said += f", warm {1000 * warm:.0f} ms" if warm is not None else ""
            rows.append((case.name, case.compile_cold_s, said, case.language))
    return _rows(rows, "Seconds to the first result, cold", 0.0)


def _rows(rows: Sequence[tuple[str, float, str, str]], title: str, mark: float) -> str:
    if not rows:
        return ""
    step, left = 24, 200
    height = TOP + step * len(rows) + 8
    longest = max(mark, *(value for _, value, _, _ in rows))
    scale = (WIDTH - left - 190) / longest
    parts = []
    for number, (name, value, said, language) in enumerate(rows):
        top = TOP + step * number
        parts.append(_text(left - 8, top + 13, name, "name", "end"))
        parts.append(
            f'<rect x="{left}" y="{top}" width="{value * scale:.1f}" height="17" rx="2" '
            f'class="bar {language}"><title>{escape(f"{name}: {said}")}</title></rect>'
        )
        parts.append(_text(left + value * scale + 8, top + 13, said, "tick", "start"))
    if mark:
        at = left + mark * scale
        parts.insert(0, _line(at, TOP - 8, at, height - 4, "roof"))
    return _svg(height, title, parts)


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} class="{kind}">{escape(text)}</text>'
