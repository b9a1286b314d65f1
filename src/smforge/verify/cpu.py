"""The cpu tier: torch.compile through generated C++, checked against float64 and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch

from smforge.kernels.catalogue import Case
from smforge.kernels.operation import Operation
from smforge.kernels.operations import operation
from smforge.verify.checking import check
from smforge.verify.result import CaseResult

SIZES = {
    "pointwise": {"rows": 2048, "columns": 1024},
    "block": {"batch": 1, "T": 128, "width": 256},
}
REPEATS = 15


def run(cases: Iterable[Case], progress: Callable[[CaseResult], None]) -> list[CaseResult]:
    """Each case compiled for one size, checked and timed beside eager torch."""
    results = []
    for case in cases:
        result = _guarded(case)
        progress(result)
        results.append(result)
    return results


def _guarded(case: Case) -> CaseResult:
    failed = CaseResult(case.name, case.language, case.dtype, "failed", tolerance=case.tolerance)
    try:
        return _run(operation(case, (0, 0), (0, 0)), failed)
    except Exception as error:  # inductor's own errors have no common base
        lines = str(error).strip().splitlines() or ["no message"]
        return replace(failed, reason=f"{type(error).__name__}: {lines[0][:300]}")


def _run(op: Operation, result: CaseResult) -> CaseResult:
    generator = torch.Generator("cpu")
    generator.seed()
    size, config = SIZES[op.case.family], op.configs()[0]
    start = time.perf_counter()
    verdict = check(op, size, config, generator)
    cold = time.perf_counter() - start
    result = replace(
        result, size=size, config=config.label, compile_cold_s=round(cold, 2),
        error=verdict.error if verdict.error < float("inf") else None,
    )  # fmt: skip
    if verdict.problem:
        return replace(result, reason=verdict.problem)
    return _timed(op, result)


def _timed(op: Operation, result: CaseResult) -> CaseResult:
    generator = torch.Generator("cpu")
    inputs = op.inputs(result.size, generator)
    outputs = op.outputs(inputs)
    mine = _times(lambda: op.launch(inputs, outputs, op.configs()[0]))
    eager = _times(lambda: type(op).function(**inputs))  # type: ignore[attr-defined]
    work = op.work(result.size)
    cuts = statistics.quantiles(mine, n=10, method="inclusive")
    median = statistics.median(mine)
    value, ceiling = work.rate(median), work.rate(statistics.median(eager))
    return replace(
        result, result="passed", unit=work.unit, value=value, ceiling_name="eager",
        ceiling=ceiling, fraction=value / ceiling, median_ms=median, p10_ms=cuts[0],
        p90_ms=cuts[-1], repeats=REPEATS, warm_up=1, bytes=work.bytes, flops=work.flops,
    )  # fmt: skip


def _times(call: Callable[[], object]) -> list[float]:
    """Milliseconds of REPEATS calls, after one that does not count."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return times
