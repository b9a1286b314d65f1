"""How long a triton-windows package takes to build, its wheel at hand, and a channel to index.

    python bench/channel.py [--repeat 3] [--level 1] [--json]

Wall-clock and CPU seconds, minimum and median. Goal on an idle machine: 2 s a package with light
compression, downloads aside. Fetches one wheel (40 MB) before the clock starts. The start of the
child that builds is counted; several packages are built at once, one for each core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from smforge.channel import build, bump, index  # noqa: E402

RECIPE = ROOT / "recipes" / "triton-windows"


def one_variant(folder: Path) -> Path:
    """A variants.yaml with the newest wheel alone, which pip has put beside it."""
    wheel = bump.read_variants(RECIPE / "variants.yaml")[-1]
    python = wheel.python.removesuffix(".*")
    where = bump.for_windows(python)
    name = f"{bump.PACKAGE}=={wheel.version}"
    bump.pip("download", "-q", "--no-deps", *where, "-d", str(folder), name)
    values = {"triton_version": wheel.version, "python": wheel.python, "wheel_sha256": wheel.sha256}
    variants = folder / "variants.yaml"
    variants.write_text("".join(f'{key}:\n  - "{value}"\n' for key, value in values.items()))
    return variants


def measure(folder: Path, repeat: int, level: int) -> dict[str, list[float]]:
    """Seconds of each run: building, its CPU time, indexing; one run before is not counted."""
    variants = one_variant(folder)
    os.environ["PIP_FIND_LINKS"] = str(folder)
    found: dict[str, list[float]] = {"build": [], "build, CPU": [], "index": []}
    for number in range(repeat + 1):
        channel = folder / str(number)
        start, cpu = time.perf_counter(), cpu_seconds()
        build.build([RECIPE], channel, variants, level)
        built, used = time.perf_counter(), cpu_seconds() - cpu
        index.index(channel)
        figures = (built - start, used, time.perf_counter() - built)
        for name, seconds in zip(found, figures, strict=True):
            if number:
                found[name].append(seconds)
    return found


def cpu_seconds() -> float:
    """CPU time of this process and of the children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--level", type=int, default=1, help="zstandard's compression level")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), args.repeat, args.level)
    results = {n: {"min": min(s), "median": statistics.median(s)} for n, s in found.items()}
    if args.json:
        print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0], "seconds": results}))
        return
    for name, result in results.items():
        print(f"{name}: min {result['min']:.2f} s, median {result['median']:.2f} s")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # rattler's threads need not survive the interpreter's end
