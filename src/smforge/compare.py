"""`--compare N`: the same steps in eager mode and compiled, timed in one run."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch

from smforge.errors import ConfigurationError

if TYPE_CHECKING:
    from smforge.engine import Engine
    from smforge.loop import Job
    from smforge.tiers import Decision

UNSTEADY = 1.3  # median over minimum above which something else was running


@dataclass(frozen=True)
class Timing:
    """Seconds of the first step, and of the later ones; the loss shows that both did the same."""

    first_step_s: float
    median_step_s: float
    fastest_step_s: float
    tokens_per_s: float
    last_loss: float


def check_comparable(count: int, decided: Decision) -> None:
    """ConfigurationError where nothing would be compiled, or the steps are too few."""
    if decided.value == "eager":
        raise ConfigurationError(
            f"--compare: torch.compile is off ({decided.reason}); --compile turns it on"
        )
    if count < 2:
        raise ConfigurationError("--compare needs 2 steps or more: the first one compiles")


def compare_steps(job: Job, build: Callable[[], Engine], count: int, strict: bool) -> None:
    """Time `count` steps each way, print the figures, keep them in compare.json."""
    job.engine.fit(*job.batch())
    timings = {"eager": _show("eager", _time(job, count))}
    # One model at a time, so that both have the whole memory.
    del job.engine
    gc.collect()
    job.engine = build()
    job.engine.fit(*job.batch())  # before compiling, so that the first step holds all of that
    job.engine.compile(job.run / "compile.log", strict, print)
    compiled = _time(job, count)
    ratio = None
    if job.engine.compile_failure:
        print(f"nothing to compare: torch.compile failed: {job.engine.compile_failure}")
    else:
        timings["compiled"] = _show("compiled", compiled)
        ratio = timings["eager"].median_step_s / compiled.median_step_s
        print(f"ratio     {ratio:.2f} (eager over compiled, medians of steps 2 to {count})")
    figures = {name: asdict(timing) for name, timing in timings.items()}
    text = json.dumps({"steps": count, "torch": torch.__version__, "ratio": ratio, **figures})
    (job.run / "compare.json").write_text(text + "\n", "utf-8")


def _time(job: Job, count: int) -> Timing:
    job.done, seconds, loss = 0, [], 0.0
    for _ in range(count):
        batch = job.batch()
        started = time.perf_counter()
        loss = job.gradients()  # reads the loss back, so the GPU is done when it returns
        job.update()
        seconds.append(time.perf_counter() - started)
    later = seconds[1:]
    tokens = batch[0].numel()
    median = statistics.median(later)
    return Timing(seconds[0], median, min(later), tokens / median, loss)


def _show(name: str, timing: Timing) -> Timing:
    print(
        f"{name:9} first step {timing.first_step_s:.2f} s, then a median of "
        f"{timing.median_step_s * 1e3:.1f} ms (fastest {timing.fastest_step_s * 1e3:.1f}), "
        f"{timing.tokens_per_s:,.0f} tokens/s, loss {timing.last_loss:.4f}",
        flush=True,
    )
    if timing.median_step_s > UNSTEADY * timing.fastest_step_s:
        print(f"warning   the {name} steps vary: something else may be using this machine")
    return timing
