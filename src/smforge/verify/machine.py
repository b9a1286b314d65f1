"""What a result says about the machine: card, driver, clocks, versions, and why it may be slow."""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

from smforge.probe.gpu import Machine
from smforge.tables import dotted


def describe(machine: Machine) -> dict[str, Any]:
    """The machine for verify.json; host names and user names stay out of it."""
    gpus = [
        {
            "index": gpu.index,
            "name": gpu.name,
            "capability": dotted(gpu.capability) if gpu.capability else "",
            "memory": gpu.memory,
        }
        for gpu in machine.gpus
    ]
    driver = {"version": machine.driver or "", "cuda": dotted(machine.cuda_driver or (0, 0))}
    return {
        "system": platform.system(),
        "release": platform.release(),
        "processor": _processor(),
        "gpus": gpus,
        "driver": driver if machine.cuda_driver else {},
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
        lines = [line.split(":", 1)[1] for line in text.splitlines() if "model name" in line]
        return lines[0].strip() if lines else platform.machine()
    except OSError:
        return platform.processor() or platform.machine()


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python and of those packages that are installed."""
    from importlib import metadata

    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def lock_hash() -> str:
    """pixi's hash of the locked environment; "" outside one."""
    try:
        text = (Path(sys.prefix) / "conda-meta" / "pixi").read_text("utf-8")
        return str(json.loads(text).get("environment_lock_file_hash", ""))
    except (OSError, ValueError):
        return ""


def slow_reasons(index: int = 0, nvml: Any | None = None) -> list[str]:
    """What NVML says that would explain a slow card; empty where it says nothing."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no package or no driver: nothing is known
        return []
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    found = []
    for probe in (_clocks, _processes, _ecc, _pcie):
        try:
            found += probe(nvml, handle)
        except Exception:  # a card or driver that does not answer this question
            continue
    nvml.nvmlShutdown()
    return found


# Bits of nvmlDeviceGetCurrentClocksEventReasons, from nvml.h.
_THROTTLES = {
    0x4: "the power limit holds the clocks down",
    0x8: "the hardware slows the clocks down (heat or power)",
    0x20: "the card is too hot",
    0x40: "the card is too hot",
    0x80: "the power supply signals a brake",
}


_HBM = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


def _clocks(nvml: Any, handle: Any) -> list[str]:
    bits = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return list(dict.fromkeys(text for bit, text in _THROTTLES.items() if bits & bit))


def _processes(nvml: Any, handle: Any) -> list[str]:
    others = len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)) - 1
    return [f"{others} other processes use the card"] if others > 0 else []


def _ecc(nvml: Any, handle: Any) -> list[str]:
    current, _pending = nvml.nvmlDeviceGetEccMode(handle)
    capability = tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))
    # HBM has room for its check bits; on GDDR they cost bandwidth.
    return ["ECC is on, which costs bandwidth"] if current and capability not in _HBM else []


def _pcie(nvml: Any, handle: Any) -> list[str]:
    width = nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)
    most = nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)
    return [f"PCIe runs {width} of {most} lanes wide"] if width < most else []
