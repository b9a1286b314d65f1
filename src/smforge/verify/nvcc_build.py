"""One real nvcc build without a GPU: every .cu for every architecture it knows, and a host program.

What NVRTC does not prove: nvcc's own front end, the host compiler, the runtime library, the link.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from smforge import tiers
from smforge.errors import ToolchainError
from smforge.verify.cells import CUDA_SOURCES, Cell, Outcome
from smforge.verify.matrix import digest_of

CASE = "cuda-host-build"
TOOL = "nvcc"
LOWEST = (7, 5)  # of CUDA 13.0


def cells(only: str = "", tier: str = "") -> list[Cell]:
    """A cell a tier that this nvcc has: they share one build."""
    rows = tiers.load().tiers.values()
    names = [t.name for t in rows if t.capability and t.capability >= LOWEST]
    return [Cell(name, CASE, TOOL, True) for name in names if only in CASE and tier in ("", name)]


def run(wanted: list[Cell], root: Path, cache: Path) -> list[Outcome]:
    """Build and start the program; on a machine without a driver it reports that, and ends well.

    A build that passed is not repeated while sources, toolchain and tiers are the same.
    """
    names = [cell.tier for cell in wanted]
    content = digest_of(sorted(CUDA_SOURCES.glob("*.cu"))) + root.name + " ".join(names)
    kept = cache / f"nvcc-{hashlib.sha256(content.encode()).hexdigest()[:32]}.txt"
    try:
        version = kept.read_text("utf-8") if kept.is_file() else build(root / "nvidia/cu13", names)
    except ToolchainError as error:
        return [Outcome(cell, "failed", str(error)) for cell in wanted]
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}")
    partial.write_text(version, "utf-8")
    partial.replace(kept)
    return [Outcome(cell, "passed", "", version) for cell in wanted]


def build(home: Path, names: list[str]) -> str:
    """nvcc's version, once the program was compiled, linked and run; raises ToolchainError."""
    if shutil.which(os.environ.get("CXX", "cl" if os.name == "nt" else "g++")) is None:
        raise ToolchainError("nvcc needs a host C++ compiler: none is on PATH")
    with tempfile.TemporaryDirectory() as work:
        program = Path(work) / ("host.exe" if os.name == "nt" else "host")
        numbers = [name.removeprefix("sm") for name in names]
        targets = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in numbers]
        library = home / "lib" / "x64" if os.name == "nt" else home / "lib"
        _call(
            [str(home / "bin" / "nvcc"), "-std=c++17", "--threads=0", *targets, "-cudart=static",
             f"-I{home / 'include'}", f"-L{library}", str(CUDA_SOURCES / "host.cu"),
             "-o", str(program)],
        )  # fmt: skip
        said = _call([str(program)])
    if "kernels" not in said:
        raise ToolchainError(f"the program nvcc built said: {said[:200]}")
    text = _call([str(home / "bin" / "nvcc"), "--version"])
    return text.split("release ")[1].split(",")[0] if "release " in text else ""


def _call(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    said = done.stdout + done.stderr
    if done.returncode:
        lines = [line for line in said.splitlines() if "error" in line.lower()] or [said[-300:]]
        raise ToolchainError(f"{Path(command[0]).name}: {lines[0].strip()[:300]}")
    return said
