"""The arithmetic peak of a card: multiprocessors x highest clock x operations per clock."""

from __future__ import annotations

import importlib
from typing import Any

from smforge.probe.gpu import GPU
from smforge.tiers import Tier


def peak_flops(tier: Tier, gpu: GPU, dtype: str, nvml: Any | None = None) -> float | None:
    """FLOP/s of a card in a dtype of tiers.toml (fp32, tf32, fp16, bf16, fp8), dense.

    None where the tier has no figure for the dtype, or driver or torch cannot be asked.
    """
    each = operations_per_clock(tier, gpu.name, dtype)
    clock, processors = highest_clock(gpu.index, nvml), multiprocessors(gpu.index)
    if not each or not clock or not processors:
        return None
    return float(each) * clock * processors


def operations_per_clock(tier: Tier, name: str, dtype: str) -> int | None:
    """Operations a multiprocessor does each clock; GeForce cards halve some of them."""
    chip = tier.flops_per_clock.get(dtype)
    return tier.flops_per_clock_geforce.get(dtype, chip) if "GeForce" in name else chip


def highest_clock(index: int, nvml: Any | None = None) -> float | None:
    """The highest clock of the multiprocessors in Hz, from NVML."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            return 1e6 * float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
        finally:
            nvml.nvmlShutdown()
    except Exception:  # no package, no driver, or a card that does not say
        return None


def multiprocessors(index: int) -> int | None:
    """How many multiprocessors a card has, from torch."""
    try:
        torch = importlib.import_module("torch")
        return int(torch.cuda.get_device_properties(index).multi_processor_count)
    except Exception:  # no torch, no CUDA, or no such device
        return None
