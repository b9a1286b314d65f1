"""Say in one line each what this machine lacks to build PyTorch 2.0.1 for Kepler.

    python preflight.py [FOLDER]     FOLDER: where the build will write (here by default)

Needs nothing but Python, and is run before anything is downloaded: the build takes hours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DISK = 40  # GB: the source, the objects of two architectures and the package
TOOLKIT = "NVIDIA GPU Computing Toolkit/CUDA/v11.4"
Run = Callable[[list[str]], str]


def output_of(command: list[str]) -> str:
    """The standard output of a program, "" where it cannot be started or fails."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout if run.returncode == 0 else ""


@dataclass(frozen=True)
class Machine:
    """What the checks ask of; tests put another one in its place."""

    platform: str = sys.platform
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    run: Run = output_of
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free  # bytes

    def cuda(self) -> Path:
        """Where CUDA 11.4 should be: its installer's own variable, else its usual folder."""
        named = self.environ.get("CUDA_PATH_V11_4")
        return Path(named or Path(self.environ.get("ProgramFiles", "C:/Program Files")) / TOOLKIT)

    def cudnn(self) -> Path:
        """Where cuDNN is: CUDNN_PATH, else unpacked into CUDA's folder."""
        named = self.environ.get("CUDNN_PATH")
        return Path(named) if named else self.cuda()


def missing(machine: Machine, folder: Path) -> list[str]:
    """One line for everything that is missing; empty when the build can start."""
    if machine.platform != "win32":
        return [f"Windows: this is {machine.platform} (linux-64 has conda-forge's own build)"]
    checks = (visual_studio, nvcc, cudnn)
    lines = [line for check in checks if (line := check(machine))]
    free = machine.free(folder) / 1e9
    if free < DISK:
        lines.append(f"disk: {free:.0f} GB free in {folder}, {DISK} GB are needed")
    return lines


def visual_studio(machine: Machine) -> str | None:
    """Visual Studio 2019 with its C++ tools: CUDA 11.4 was made for no later one."""
    root = machine.environ.get("ProgramFiles(x86)", "C:/Program Files (x86)")
    vswhere = Path(root) / "Microsoft Visual Studio/Installer/vswhere.exe"
    tools = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
    command = [str(vswhere), "-products", "*", "-version", "[16.0,17.0)", "-requires", tools]
    if machine.run([*command, "-property", "installationPath"]).strip():
        return None
    return (
        "Visual Studio 2019 with C++: not found by vswhere; install Build Tools 2019 with the "
        "workload `Desktop development with C++`"
    )


def nvcc(machine: Machine) -> str | None:
    """nvcc of CUDA 11.4, the guide's; ptxas 11.x is the last to assemble sm_35."""
    program = machine.cuda() / "bin" / "nvcc.exe"
    said = re.search(r"release (\d+\.\d+)", machine.run([str(program), "--version"]))
    if said and said[1] == "11.4":
        return None
    found = f"release {said[1]}" if said else "nothing"
    return f"CUDA 11.4: {found} at {program}; install CUDA 11.4.4 (or set CUDA_PATH_V11_4)"


def cudnn(machine: Machine) -> str | None:
    """cuDNN 8 below 8.8: later ones start at compute capability 5.0."""
    header = machine.cudnn() / "include" / "cudnn_version.h"
    text = header.read_text("utf-8", "replace") if header.is_file() else ""
    version = tuple(
        int(match[1])
        for part in ("MAJOR", "MINOR")
        if (match := re.search(rf"#define CUDNN_{part} (\d+)", text))
    )
    if (8, 0) <= version < (8, 8):
        return None
    found = ".".join(map(str, version)) or "nothing"
    return f"cuDNN 8.0 to 8.7: found {found} at {header}; unpack 8.7.0 there (or set CUDNN_PATH)"


def main(folder: Path) -> int:
    """Print what is missing; 0 when nothing is, else 4."""
    lines = missing(Machine(), folder)
    for line in lines:
        print(f"missing: {line}", file=sys.stderr)
    return 4 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
