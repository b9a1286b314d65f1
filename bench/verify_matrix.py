"""Seconds of `verify --no-gpu`, cold and warm: `./pixiw run benchmark verify_matrix [--json]`.

The toolchains are fetched first and do not count. Cold compiles every cell; warm finds them all in
the results kept by content. Goals on two idle cores: 120 s and 5 s. CPU seconds are those of all
processes together: on a machine that others use too, half of them is what two idle cores take at
least.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from smforge.verify import cells, no_gpu, nvcc_build


def measure(cache: Path) -> tuple[float, float, int]:
    """Wall-clock and CPU seconds of one run, and how many cells broke a promise."""
    start, cpu = time.perf_counter(), cpu_seconds()
    outcomes = no_gpu.run("", "", say, lambda *_: None, cache=cache)
    used = cpu_seconds() - cpu
    return time.perf_counter() - start, used, sum(outcome.broken for outcome in outcomes)


def cpu_seconds() -> float:
    """CPU time of this process and of the children that ended, with theirs."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def say(line: str) -> None:
    print(line, file=sys.stderr)


def main() -> int:
    names = {cell.tool for cell in cells.all_cells()} | {nvcc_build.TOOL}
    _, missing = no_gpu.fetch(names, say)
    if missing:
        say(f"not measured: {missing}")
        return 4
    with tempfile.TemporaryDirectory() as folder:
        cold, cold_cpu, broken = measure(Path(folder))
        warm, warm_cpu, _ = measure(Path(folder))
    result = {"cold_s": round(cold, 1), "cold_cpu_s": round(cold_cpu, 1),
              "warm_s": round(warm, 2), "warm_cpu_s": round(warm_cpu, 2), "broken": broken,
              "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}  # fmt: skip
    print(json.dumps(result) if "--json" in sys.argv else result)
    return 5 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
