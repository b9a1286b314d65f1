"""Run the reference kernels on this machine's GPU: right first, then how fast."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from smforge.errors import SmforgeError
from smforge.kernels.catalogue import Case
from smforge.kernels.operation import Operation, Tensors, Work
from smforge.kernels.operations import operation
from smforge.kernels.tuning import Capability, Config
from smforge.verify import timing
from smforge.verify.checking import check, check_sample
from smforge.verify.machine import slow_reasons
from smforge.verify.result import CaseResult

COPY = "device copy"


@dataclass
class Bench:
    """One card under test: its ceilings, thresholds, random numbers, and configurations chosen."""

    capability: Capability
    triton: tuple[int, int]
    thresholds: dict[str, float]
    tuned: Tuned
    copy_gb_s: float = 0.0

    def __post_init__(self) -> None:
        self.generator = torch.Generator("cuda")
        self.generator.seed()  # fresh inputs in every run
        self.memory = int(torch.cuda.get_device_properties(0).total_memory)

    def measure_copy(self) -> float:
        """GB/s of a device-to-device copy, bytes read and written: the memory's ceiling."""
        size = min(1 << 30, self.memory // 16)
        source = torch.randn(size // 4, device="cuda", generator=self.generator)
        target = torch.empty_like(source)
        found = timing.measure([lambda: target.copy_(source)], 2 * size)[0]
        self.copy_gb_s = 2 * size / found.median / 1e6
        return self.copy_gb_s


class Tuned:
    """The configurations that autotuning chose, kept in a file by card, Triton and kernels."""

    def __init__(self, file: Path, key: str) -> None:
        self._file, self._key = file, key
        try:
            self._all: dict[str, dict[str, int]] = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            self._all = {}

    def of(self, case: str) -> int | None:
        """The number of the chosen configuration in the case's set."""
        return self._all.get(self._key, {}).get(case)

    def keep(self, case: str, number: int) -> None:
        """Remember a choice."""
        self._all.setdefault(self._key, {})[case] = number
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(self._all, indent=1), "utf-8")
        partial.replace(self._file)


def run(
    cases: Iterable[Case], bench: Bench, progress: Callable[[CaseResult], None]
) -> list[CaseResult]:
    """Every case checked and timed; one that raises is a failed case, not a crash."""
    results = []
    for case in cases:
        result = _guarded(case, bench)
        torch.cuda.empty_cache()
        progress(result)
        results.append(result)
    return results


def _guarded(case: Case, bench: Bench) -> CaseResult:
    failed = CaseResult(case.name, case.language, case.dtype, "failed", tolerance=case.tolerance)
    try:
        return _run(operation(case, bench.capability, bench.triton), bench)
    except SmforgeError as error:  # a toolchain that is not there is no wrong result
        return replace(failed, result="not-run", reason=str(error))
    except torch.cuda.OutOfMemoryError as error:
        return replace(failed, result="not-run", reason=_line(error))
    except Exception as error:
        return replace(failed, reason=f"{type(error).__name__}: {_line(error)}")


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or ["no message"])[-1][:300]


def _run(op: Operation, bench: Bench) -> CaseResult:
    case = op.case
    configs = _candidates(op, bench)
    colds = [_first_launch(op, config, bench) for config in configs]
    result = CaseResult(case.name, case.language, case.dtype, "failed", tolerance=case.tolerance)
    for config, (_cold, problem) in zip(configs, colds, strict=True):
        if problem:
            return replace(result, config=config.label, reason=problem)
    size = op.full_size(bench.memory)
    inputs = op.inputs(size, bench.generator)
    work = op.work(size)
    best = _fastest(op, configs, inputs, work, bench)
    verdict = check_sample(op, inputs, configs[best], bench.generator)
    result = replace(
        result, size=size, config=configs[best].label, error=_finite(verdict.error),
        compile_cold_s=round(colds[best][0], 3), bytes=work.bytes, flops=work.flops,
    )  # fmt: skip
    if verdict.problem:
        return replace(result, reason=verdict.problem)
    timed = _timed(result, op, configs[best], inputs, work, bench)
    return replace(timed, compile_warm_s=_warm(op, configs[best], inputs))


def _finite(error: float) -> float | None:
    return error if error < float("inf") else None


def _candidates(op: Operation, bench: Bench) -> list[Config]:
    configs = list(op.configs())
    chosen = bench.tuned.of(op.case.name)
    return [configs[chosen]] if chosen is not None and chosen < len(configs) else configs


def _first_launch(op: Operation, config: Config, bench: Bench) -> tuple[float, str]:
    """Seconds of the first launch, which compiles, and what is wrong with its result."""
    sizes = [size for size in op.check_sizes if op.accepts(size, config)]
    if op.case.language == "compile":  # compiles for each size, so the full one alone is checked
        sizes = [op.full_size(bench.memory)]
    inputs = op.inputs(sizes[-1], bench.generator)
    outputs = op.outputs(inputs)
    torch.cuda.synchronize()
    start = time.perf_counter()
    op.launch(inputs, outputs, config)
    torch.cuda.synchronize()
    cold = time.perf_counter() - start
    if op.case.language == "compile":
        return cold, ""
    return cold, check(op, sizes[-1], config, bench.generator).problem


def _fastest(
    op: Operation, configs: list[Config], inputs: Tensors, work: Work, bench: Bench
) -> int:
    if len(configs) == 1:
        return 0
    outputs = op.outputs(inputs)
    calls = [lambda c=config: op.launch(inputs, outputs, c) for config in configs]
    times = timing.measure(calls, work.bytes, budget_ms=40.0)
    best = min(range(len(configs)), key=lambda i: times[i].median)
    bench.tuned.keep(op.case.name, best)
    return best


def _timed(
    result: CaseResult, op: Operation, config: Config, inputs: Tensors, work: Work, bench: Bench
) -> CaseResult:
    """The result with times, rate and ceiling: a library's call timed in turn, or the copy."""
    outputs = op.outputs(inputs)
    library = op.ceiling(inputs)
    calls: list[Callable[[], Any]] = [lambda: op.launch(inputs, outputs, config)]
    times = timing.measure(calls + ([library.call] if library else []), work.bytes)
    mine = times[0]
    value = work.rate(mine.median)
    name, ceiling = COPY, bench.copy_gb_s
    if library:
        name, ceiling = library.name, work.rate(times[1].median)
    elif work.unit != "GB/s":
        name, ceiling = "", 0.0
    fraction = value / ceiling if ceiling else None
    return _judged(
        replace(
            result, result="passed", unit=work.unit, value=value, ceiling_name=name,
            ceiling=ceiling or None, fraction=fraction, median_ms=mine.median, p10_ms=mine.p10,
            p90_ms=mine.p90, repeats=mine.repeats, warm_up=mine.warm_up, flushed=mine.flushed,
        ),
        mine.spread, bench,
    )  # fmt: skip


def _judged(result: CaseResult, spread: float, bench: Bench) -> CaseResult:
    """With the verdict on speed: slow below a measured threshold, and never broken for it."""
    threshold = bench.thresholds.get(result.name)
    wide = f"p10 to p90 is {spread:.0%} of the median" if spread > timing.WIDE else ""
    if threshold is None or result.fraction is None or result.fraction >= threshold:
        return replace(result, threshold=threshold, reason=wide)
    likely = "; ".join(slow_reasons()) or "NVML names no reason"
    text = f"{result.fraction:.0%} of {result.ceiling_name}, measured before: {threshold:.0%}"
    return replace(result, result="slow", threshold=threshold, reason=f"{text} ({likely})")


def _warm(op: Operation, config: Config, inputs: Tensors) -> float | None:
    """Seconds of a launch that finds its kernels in the cache on disk."""
    if op.case.language != "triton":
        return None
    _forget()
    outputs = op.outputs(inputs)
    torch.cuda.synchronize()
    start = time.perf_counter()
    op.launch(inputs, outputs, config)
    torch.cuda.synchronize()
    return round(time.perf_counter() - start, 4)


def _forget() -> None:
    """Empty the kernels' caches in memory (named `cache` up to Triton 3.2)."""
    prefixes = ("smforge.kernels.triton_", "smforge.kernels.gluon_")
    for module in [m for name, m in sys.modules.items() if name.startswith(prefixes)]:
        for value in vars(module).values():
            for name in ("device_caches", "cache"):
                kept: Any = getattr(value, name, None)
                if hasattr(kept, "clear") and hasattr(value, "arg_names"):
                    kept.clear()
