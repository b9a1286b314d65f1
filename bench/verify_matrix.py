"""Seconds of `verify --no-gpu`, cold and warm: `./pixiw run benchmark verify_matrix [--json]`.

The toolchains are fetched first and do not count. Cold compiles every cell; warm finds them all in
the results kept by content. Goals on two idle cores: 120 s and 5 s.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from smforge.verify import cells, matrix, no_gpu, nvcc_build


def seconds(cache: Path, found: dict[str, Path]) -> tuple[float, int]:
    """Time of one pass over the matrix, and how many cells broke a promise."""
    start = time.perf_counter()
    wanted = [*cells.all_cells(), *no_gpu.interpreter_cells("", "")]
    outcomes = matrix.run(wanted, found, {}, cache, lambda *_: None)
    outcomes += nvcc_build.run(nvcc_build.cells(), found[nvcc_build.TOOL], cache)
    return time.perf_counter() - start, sum(outcome.broken for outcome in outcomes)


def main() -> int:
    names = {cell.tool for cell in cells.all_cells()} | {nvcc_build.TOOL}
    found, missing = no_gpu.fetch(names, lambda line: print(line, file=sys.stderr))
    if missing:
        print(f"not measured: {missing}", file=sys.stderr)
        return 4
    found[no_gpu.INTERPRETER] = found["triton-3.7"]
    with tempfile.TemporaryDirectory() as folder:
        cold, broken = seconds(Path(folder), found)
        warm, _ = seconds(Path(folder), found)
    result = {"cold_s": round(cold, 1), "warm_s": round(warm, 2), "broken": broken,
              "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}  # fmt: skip
    print(json.dumps(result) if "--json" in sys.argv else result)
    return 5 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
