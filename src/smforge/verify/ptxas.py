"""NVIDIA's assembler: which one takes a PTX, and what its verbose mode reports."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any


def assembler(tools: Path, ptx: str) -> str:
    """The bundled assembler for this PTX: Linux wheels have a second one for Blackwell's."""
    version = ptx_version(ptx)
    newer = tools / "ptxas-blackwell"
    if newer.is_file() and tuple(map(int, version.split("."))) > (8, 8):
        return str(newer)
    return str(tools / ("ptxas.exe" if os.name == "nt" else "ptxas"))


def assemble(tools: Path, ptx: str, capability: int, work: Path) -> dict[str, Any]:
    """Target, PTX version, registers and spilled bytes of a PTX, by the assembler in `tools`.

    Raises RuntimeError with what it said where it refuses.
    """
    source = work / "kernel.ptx"
    source.write_text(ptx, encoding="utf-8", newline="\n")
    target = re.search(r"^\.target (\w+)", ptx, re.M)
    name = target[1] if target else f"sm_{capability}"
    command = [assembler(tools, ptx), "-v", f"--gpu-name={name}", str(source)]
    command += ["-o", str(work / "c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(said)
    return {"target": name, "ptx_version": ptx_version(ptx), **usage(said)}


def release(said: str) -> str:
    """The version in what `ptxas --version` prints, as "12.8.93"; "" when it names none."""
    found = re.search(r"V(\d+\.\d+\.\d+)", said)
    return found[1] if found else ""


def usage(said: str) -> dict[str, int]:
    """Registers a thread, spilled bytes (stores and loads) and stack bytes in `ptxas -v` text."""
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    stack = re.search(r"(\d+) bytes stack frame", said)
    used = re.search(r"Used (\d+) registers", said)
    shared = re.search(r"(\d+) bytes smem", said)
    return {
        **({"shared": int(shared[1])} if shared else {}),
        "registers": int(used[1]) if used else 0,
        "spills": int(spills[1]) + int(spills[2]) if spills else 0,
        "stack": int(stack[1]) if stack else 0,
    }


def ptx_version(ptx: str) -> str:
    """The PTX ISA of a kernel's text, as "8.7"; "" when it names none."""
    found = re.search(r"^\.version (\S+)", ptx, re.M)
    return found[1] if found else ""
