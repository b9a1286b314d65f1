"""How long the lock tools take on this workspace, over the committed index.

    python bench/lock.py [--repeat 5] [--json]

Wall-clock seconds, minimum and median. Goals on 2 cores: all solves in 5 s, the audit in 1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from smforge.locks import audit, index, manifest, read, solve, write  # noqa: E402
from smforge.locks.check import Checker  # noqa: E402

CHANNEL = ROOT / "tests" / "data" / "conda-forge"
GOALS = {"solve": 5.0, "audit": 1.0}


def solve_all() -> None:
    """Every environment and platform from nothing, index opened and lock text made."""
    workspace = manifest.load(ROOT / "pixi.toml")
    problems = [solve.Problem(e.name, p, r) for e, p, r in workspace.targets()]
    with index.offline(workspace.channels, CHANNEL) as channel:
        answers = solve.solve_all(problems, channel, ROOT)
    pairs = zip(problems, answers, strict=True)
    write.text(workspace, {(p.environment, p.platform.name): entries for p, entries in pairs})


def check() -> None:
    """`lock --check`."""
    workspace = manifest.load(ROOT / "pixi.toml")
    if Checker(workspace, read.load(ROOT / "pixi.lock")).problems():
        raise SystemExit("pixi.lock is stale: a benchmark of it would mean nothing")


CASES: dict[str, Callable[[], object]] = {
    "solve": solve_all,
    "check": check,
    "audit": lambda: audit.audit(ROOT / "pixi.toml"),
}


def measure(case: Callable[[], object], repeat: int) -> dict[str, float]:
    """Minimum and median over `repeat` runs after one that is not counted."""
    case()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        case()
        seconds.append(time.perf_counter() - start)
    return {"min": min(seconds), "median": statistics.median(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = {name: measure(case, args.repeat) for name, case in CASES.items()}
    if args.json:
        print(json.dumps({"cores": os.cpu_count(), "seconds": results}, indent=2))
        return
    for name, result in results.items():
        goal = f", goal {GOALS[name]} s" if name in GOALS else ""
        print(f"{name}: min {result['min']:.2f} s, median {result['median']:.2f} s{goal}")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # py-rattler's threads crash an interpreter that exits after a solve
