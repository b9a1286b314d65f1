"""README's tables of `verify`: kernels by tier without their cards, and how fast on a card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smforge import tiers
from smforge.evidence import Run

FRACTION, RATE = "fraction of ceiling", "GB/s or TFLOP/s"


def is_detailed(row: Run) -> bool:
    """Whether a row's figures are told in a table of their own."""
    return row.check == "verify" and bool(row.figures)


def summary(row: Run) -> str:
    """The row in a few words, for the support table."""
    if row.case.startswith(FRACTION):
        return f"{len(row.figures)} kernels right, speed below"
    if row.case.startswith(RATE):
        return ""
    right = sum(value > 0 for value in row.figures.values())
    where = " in the interpreter" if row.case == "interpreter" else ""
    verb = f"right{where}" if row.how == "cpu" else "compiled"
    return f"{right} of {len(row.figures)} kernels {verb}"


def tables(rows: Sequence[Run]) -> str:
    """Both tables as Markdown; "" where nothing ran."""
    return "\n".join(part for part in (_matrix(rows), *_speeds(rows)) if part)


def _matrix(rows: Iterable[Run]) -> str:
    found = [row for row in rows if row.check == "verify" and row.how == "aot"]
    if not found:
        return ""
    names = [row.tier for row in found]
    kernels = dict.fromkeys(name for row in found for name in row.figures)
    lines = [
        "Kernels compiled for each tier without its card ("
        + f"{found[-1].date}; a kernel runs nowhere here):",
        "",
        f"| kernel | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for kernel in kernels:
        cells = " | ".join(_mark(row, kernel) for row in found)
        lines.append(f"| {kernel} | {cells} |")
    legend = (
        "(yes): Triton compiles it, Inductor does not support the card; no: the compiler aborts."
    )
    return "\n".join([*lines, "", legend, ""])


def _mark(row: Run, kernel: str) -> str:
    value = row.figures.get(kernel)
    if value is None:
        return "-"
    if not value:
        return "no"
    inductor = tiers.load()[row.tier].compile.value == "inductor"
    return "yes" if inductor or kernel.startswith("cuda-") else "(yes)"


def _speeds(rows: Sequence[Run]) -> list[str]:
    """A table for each card that timed kernels."""
    found = []
    for row in rows:
        if row.check != "verify" or row.how != "gpu" or not row.case.startswith(FRACTION):
            continue
        rates = next(
            (r.figures for r in rows if r.case.startswith(RATE) and r.device == row.device), {}
        )
        versions = ", ".join(f"{name} {value}" for name, value in row.versions.items())
        where = row.case.removeprefix(FRACTION).strip(" ()")
        lines = [
            f"{row.device}, {row.date}: {versions} ({where}). The ceiling is the device copy, "
            "cuBLAS, SDPA or eager torch, timed in the same run:",
            "",
            "| kernel | rate (GB/s; matrix and attention kernels TFLOP/s) | of ceiling |",
            "|---|---|---|",
        ]
        lines += [
            f"| {name} | {rates.get(name, 0):g} | {fraction:.0%} |"
            for name, fraction in row.figures.items()
        ]
        found.append("\n".join([*lines, ""]))
    return found
