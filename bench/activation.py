"""What an activation costs: processes started, and milliseconds above an empty shell.

    python bench/activation.py [--repeat 20] [--json]

bash: a hit and a miss of activate.sh. cmd (under Wine, where it is): a hit and a miss of
activate.bat, and vswhere + vcvars64 each time, as activation packages do it. The stand-in vcvars64
starts 10 processes; Visual Studio's own starts more and slower ones, so only the hit says
something of Windows. Rounds are interleaved; wall-clock minimum and median.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from smforge.wine.prefix import missing, windows_path  # noqa: E402
from tests.activation.conftest import Bed  # noqa: E402
from tests.activation.windows_bed import Machine  # noqa: E402
from tests.windows.wine import Shell, write_batch  # noqa: E402

Case = Callable[[], object]
TOOLSET = "14.44.35207"


def bash_cases(folder: Path) -> dict[str, tuple[Case, Case]]:
    """Name -> (preparation, what is timed) for bash."""
    bed = Bed(folder / "linux")
    bed.gcc()
    bed.toolkit()
    cache = bed.home / ".cache" / "smforge"

    def run(line: str) -> None:
        command = ["/bin/bash", "-c", line]
        subprocess.run(command, env=bed.environ(), stdin=subprocess.DEVNULL, check=True)

    def remove() -> None:
        if cache.exists():
            cache.rmdir()

    source = f". '{bed.script}'; [[ $SMFORGE_STATUS == ok ]]"
    return {
        "empty": (lambda: None, lambda: run(":")),
        "hit": (lambda: run(source), lambda: run(source)),
        "miss": (remove, lambda: run(source)),
    }


def bash_counts(folder: Path) -> dict[str, int]:
    """Processes of a miss and a hit: in a process namespace of one's own pids count up by one."""
    bed = Bed(folder / "counted")
    bed.gcc()
    bed.toolkit()
    command = ["unshare", "--pid", "--fork", "/bin/bash", "-c"]
    line = f". '{bed.script}'; (echo $BASHPID)"
    counts = {"empty": 0}
    for name in ("miss", "hit"):
        done = subprocess.run(
            [*command, line], env=bed.environ(PATH="/usr/bin:/bin"), capture_output=True, check=True
        )
        counts[name] = int(done.stdout) - 2
    return counts


DIRECT = """@echo off
set "W=@VSWHERE@"
for /f "usebackq delims=" %%I in (`call "%W%" -latest -property installationPath`) do set "I=%%I"
call "%I%\\VC\\Auxiliary\\Build\\vcvars64.bat" -vcvars_ver=@TOOLSET@
"""


class Cmd:
    """The same for cmd, with the number of processes of each."""

    def __init__(self, folder: Path, wine: Shell) -> None:
        self.machine = Machine(wine, folder / "windows")
        self.machine.visual_studio(children=10)
        vswhere = self.machine.files / "Microsoft Visual Studio/Installer/vswhere.exe"
        text = DIRECT.replace("@VSWHERE@", windows_path(vswhere)).replace("@TOOLSET@", TOOLSET)
        script = write_batch(self.machine.root / "direct.bat", text)
        call = self.machine.call
        direct = f'@call "{windows_path(script)}"\n'
        self.scripts = {"empty": "", "hit": call, "miss": call, "vcvars64 each time": direct}

    def run(self, name: str, count: bool = False) -> int:
        """Processes started by one run; it must end with the compiler set."""
        machine = self.machine
        text = self.scripts[name] + f"@echo %VCToolsVersion%{TOOLSET * (name == 'empty')}\n"
        result = machine.wine.cmd(text, machine.environ(), folder=machine.root, count=count)
        if TOOLSET not in result.stdout:
            raise SystemExit(f"{name}: {result.stdout}{result.stderr}")
        return result.processes or 0

    def prepare(self, name: str) -> None:
        if name == "miss":
            for path in self.machine.cache_files:
                path.unlink()
        elif name == "hit" and not self.machine.cache_files:
            self.run(name)

    def cases(self) -> dict[str, tuple[Case, Case]]:
        return {n: (partial(self.prepare, n), partial(self.run, n)) for n in self.scripts}

    def counts(self) -> dict[str, int]:
        for name in self.scripts:
            self.prepare(name)
        return {n: (self.prepare(n), self.run(n, count=True))[1] for n in self.scripts}


def measure(cases: dict[str, tuple[Case, Case]], repeat: int) -> dict[str, dict[str, float]]:
    """Seconds of each case, one after the other in each round; `above` the empty shell, in ms."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeat):
        for name, (prepare, timed) in cases.items():
            prepare()
            start = time.perf_counter()
            timed()
            seconds[name].append(time.perf_counter() - start)
    floor = statistics.median(seconds["empty"])
    return {
        name: {
            "min_ms": 1000 * min(values),
            "median_ms": 1000 * statistics.median(values),
            "above_empty_ms": 1000 * (statistics.median(values) - floor),
        }
        for name, values in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        results["bash"] = measure(bash_cases(Path(folder)), args.repeat)
        if os.geteuid() == 0 and shutil.which("unshare"):
            for name, number in bash_counts(Path(folder)).items():
                results["bash"][name]["processes"] = number
        if reason := missing():
            print(f"cmd: not measured, {reason}", file=sys.stderr)
        else:
            cmd = Cmd(Path(folder), Shell.prepare())
            results["cmd under Wine"] = measure(cmd.cases(), args.repeat)
            for name, number in cmd.counts().items():
                results["cmd under Wine"][name]["processes"] = number
    if args.json:
        print(json.dumps(results, indent=2))
        return
    for shell, rows in results.items():
        for name, row in rows.items():
            processes = f"{row['processes']:3.0f} processes" if "processes" in row else ""
            print(
                f"{shell}: {name:30s} min {row['min_ms']:7.1f} median {row['median_ms']:7.1f} "
                f"above an empty one {row['above_empty_ms']:7.1f} ms {processes}"
            )


if __name__ == "__main__":
    main()
