"""GPUs and driver: NVML through nvidia-ml-py, then nvidia-smi, with conda's overrides on top."""

from __future__ import annotations

import csv
import importlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Runner = Callable[[list[str]], str]
QUERY = "index,name,compute_cap,memory.total,uuid,driver_version"
CUDA_LINE = re.compile(r"CUDA (?:UMD )?Version:\s*(\d+)\.(\d+)")


@dataclass(frozen=True)
class GPU:
    """One card; `memory` in bytes, `capability` as (major, minor)."""

    index: int
    name: str
    capability: tuple[int, int] | None
    memory: int
    uuid: str


@dataclass(frozen=True)
class Machine:
    """What pixi compares: the lowest capability of all GPUs and the driver's CUDA version.

    `source` says how it was found out ("nvml", "nvidia-smi", "none", with "override" added).
    """

    gpus: tuple[GPU, ...] = ()
    driver: str | None = None
    cuda_driver: tuple[int, int] | None = None
    capability: tuple[int, int] | None = None
    source: str = "none"

    @property
    def names(self) -> str:
        """The cards' names for a message."""
        return ", ".join(dict.fromkeys(g.name for g in self.gpus)) or "the GPU"


def detect(
    environ: Mapping[str, str] | None = None,
    run: Runner | None = None,
    nvml: Any | None = None,
) -> Machine:
    """This machine's GPUs and driver; `run` and `nvml` stand in for nvidia-smi and pynvml in tests.

    CONDA_OVERRIDE_CUDA and CONDA_OVERRIDE_CUDA_ARCH replace what was found, as in pixi: an
    empty value means "none".
    """
    environ = os.environ if environ is None else environ
    machine = from_nvml(nvml) or from_nvidia_smi(run or output_of) or Machine()
    known = [gpu.capability for gpu in machine.gpus if gpu.capability]
    machine = replace(machine, capability=min(known, default=None))
    return overridden(machine, environ)


def from_nvml(nvml: Any | None) -> Machine | None:
    """Through NVML; None where the package, the library or the driver is missing."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # ImportError, or any NVMLError: no driver, no library
        return None
    try:
        number = nvml.nvmlSystemGetCudaDriverVersion_v2()
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpus.append(
                GPU(
                    index,
                    text(nvml.nvmlDeviceGetName(handle)),
                    tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
                    int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                    text(nvml.nvmlDeviceGetUUID(handle)),
                )
            )
        driver = text(nvml.nvmlSystemGetDriverVersion())
        return Machine(tuple(gpus), driver, (number // 1000, number % 1000 // 10), source="nvml")
    except Exception:  # a driver that answers halfway is no answer
        return None
    finally:
        nvml.nvmlShutdown()


def from_nvidia_smi(run: Runner) -> Machine | None:
    """Through nvidia-smi; None where it is missing or fails."""
    try:
        rows = run(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"])
        header = run(["nvidia-smi"])
    except (OSError, subprocess.SubprocessError):
        return None
    gpus, driver = [], None
    for row in csv.reader(rows.splitlines(), skipinitialspace=True):
        if len(row) != 6:
            continue
        index, name, capability, memory, uuid, driver = row
        match = re.fullmatch(r"(\d+)\.(\d+)", capability)
        mebibytes = int(memory) if memory.isdigit() else 0
        gpus.append(
            GPU(int(index), name, (int(match[1]), int(match[2])) if match else None,
                mebibytes << 20, uuid)
        )  # fmt: skip
    found = CUDA_LINE.search(header)
    cuda = (int(found[1]), int(found[2])) if found else None
    return Machine(tuple(gpus), driver, cuda, source="nvidia-smi") if gpus else None


def overridden(machine: Machine, environ: Mapping[str, str]) -> Machine:
    """The machine with conda's overrides applied; `__cuda_arch` needs `__cuda`."""
    for variable, name in (
        ("CONDA_OVERRIDE_CUDA", "cuda_driver"),
        ("CONDA_OVERRIDE_CUDA_ARCH", "capability"),
    ):
        if variable in environ:
            match = re.match(r"(\d+)(?:\.(\d+))?", environ[variable].strip())
            value = (int(match[1]), int(match[2] or 0)) if match else None
            machine = replace(machine, **{name: value}, source=f"{machine.source}, override")  # type: ignore[arg-type]
    return machine if machine.cuda_driver else replace(machine, capability=None)


def output_of(command: list[str]) -> str:
    """Standard output of a command that must succeed within ten seconds."""
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10, encoding="utf-8",
        errors="replace",
    ).stdout  # fmt: skip


def text(value: str | bytes) -> str:
    """NVML's strings: older bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
