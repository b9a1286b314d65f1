"""Times on the GPU's own clock: device events, warm-up, medians and quantiles, cold L2."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

WARM_UP = 3  # launches before the first that counts
REPEATS = (10, 100)  # fewest and most timed launches of each call
BUDGET_MS = 300.0  # device time spent on each call, within REPEATS
WIDE = 0.10  # a p10 to p90 wider than this share of the median is said


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call: median and quantiles of `repeats`, after `warm_up` launches."""

    median: float
    p10: float
    p90: float
    repeats: int
    warm_up: int
    flushed: bool

    @property
    def spread(self) -> float:
        """Width from p10 to p90 as a share of the median."""
        return (self.p90 - self.p10) / self.median if self.median else 0.0


def measure(
    calls: Sequence[Callable[[], Any]], working_set: int, budget_ms: float = BUDGET_MS
) -> list[Timing]:
    """Time several calls in turn, so that clocks and heat are the same for all of them.

    Inputs that L2 could keep between launches (`working_set` bytes below eight times L2) are
    pushed out of it by reading another buffer before each launch.
    """
    flush = _flusher(working_set)
    for call in calls:
        for _ in range(WARM_UP):
            call()
    first = [_once(call, flush) for call in calls]
    repeats = [_repeats(milliseconds, budget_ms) for milliseconds in first]
    events: list[list[tuple[Any, Any]]] = [[] for _ in calls]
    for turn in range(max(repeats)):
        for call, count, pairs in zip(calls, repeats, events, strict=True):
            if turn < count:
                pairs.append(_between_events(call, flush))
    torch.cuda.synchronize()
    return [_timing([a.elapsed_time(b) for a, b in pairs], flush is not None) for pairs in events]


def _repeats(milliseconds: float, budget_ms: float) -> int:
    fewest, most = REPEATS
    return max(fewest, min(most, int(budget_ms / max(milliseconds, 1e-3))))


def _timing(times: list[float], flushed: bool) -> Timing:
    cuts = statistics.quantiles(times, n=10, method="inclusive")
    return Timing(statistics.median(times), cuts[0], cuts[-1], len(times), WARM_UP, flushed)


def _once(call: Callable[[], Any], flush: Callable[[], None] | None) -> float:
    start, end = _between_events(call, flush)
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def _between_events(call: Callable[[], Any], flush: Callable[[], None] | None) -> tuple[Any, Any]:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if flush:
        flush()
    start.record()
    call()
    end.record()
    return start, end


def _flusher(working_set: int) -> Callable[[], None] | None:
    level2 = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)) or 64 << 20
    if working_set >= 8 * level2:
        return None
    # Read, not written: dirty lines would be written back during the timed launch.
    buffer = torch.zeros(2 * level2 // 4, device="cuda")
    result = torch.empty((), device="cuda")

    def flush() -> None:
        torch.sum(buffer, 0, out=result)

    return flush
