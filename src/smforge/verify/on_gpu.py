"""One report of this machine's card: which cases, ceilings, thresholds and findings."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smforge import __version__, tables, tiers
from smforge.errors import ConfigurationError, GPUError
from smforge.kernels import catalogue
from smforge.kernels.catalogue import Case
from smforge.peak import peak_flops
from smforge.probe.gpu import Machine
from smforge.verify.machine import describe, lock_hash, versions
from smforge.verify.result import CaseResult, Report


def report_of(
    tier: tiers.Tier, machine: Machine, args: argparse.Namespace, say: Callable[[str], None]
) -> Report:
    """Run every case the card and its stack are for. Raises GPUError where torch has no CUDA."""
    with fresh_caches():
        torch = _torch()
        set_cudnn(tier, torch, say)
        from smforge.verify import bench as runner
        from smforge.verify import timing

        timing.BUDGET_MS *= 5 if args.long else 1
        triton = _triton_version()
        capability = torch.cuda.get_device_capability(0)
        cases = list(cases_for(tier, capability, triton, args.only))
        if not cases:
            raise ConfigurationError(f"no case for {tier.name} holds '{args.only}'")
        key = f"{torch.cuda.get_device_name(0)}, Triton {triton}, {_kernels()}"
        tuned = runner.Tuned(_tuning_file(), key + (f", {time.time()}" if args.long else ""))
        bench = runner.Bench(nearest(capability), triton, tier.threshold, tuned)
        ceilings = {"copy GB/s": round(bench.measure_copy(), 1)}
        say(f"{machine.names}: device copy {bench.copy_gb_s:.0f} GB/s")
        results = runner.run(cases, bench, lambda case: say(line_of(case)))
    for dtype in ("fp32", "tf32", "fp16", "bf16", "fp8"):
        peak = peak_flops(tier, machine.gpus[0], dtype)
        if peak:
            ceilings[f"{dtype} TFLOP/s"] = round(peak / 1e12, 1)
    return Report(
        date=time.strftime("%Y-%m-%dT%H:%M:%S%z"), smforge=__version__, tier=tier.name, mode="gpu",
        machine=describe(machine), versions={**versions("triton", "triton-windows", "numpy"),
        "torch": torch.__version__, "cuda": torch.version.cuda or ""}, lock=lock_hash(),
        ceilings=ceilings, cases=tuple(results), findings=findings(tier, results),
    )  # fmt: skip


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        again = tiers.command("install")
        raise ConfigurationError(f"torch is not installed here: {again} brings it") from None
    if not torch.cuda.is_available():
        raise GPUError(f"torch sees no CUDA device: {tiers.command('which')} says what is here")
    return torch


def set_cudnn(tier: tiers.Tier, torch: Any, say: Callable[[str], None]) -> None:
    """Use cuDNN as the tier says, and say so where it is off: these cards are dropped by it."""
    from smforge.decisions import cudnn

    decided = cudnn(tier, torch.backends.cudnn.version() or 0)
    torch.backends.cudnn.enabled = decided.value == "on"
    if not torch.backends.cudnn.enabled:
        say(f"cuDNN is off: {decided.reason}")


def _triton_version() -> tuple[int, int]:
    """(major, minor) of the Triton that is installed; (0, 0) without one."""
    try:
        import triton

        major, minor = triton.__version__.split(".")[:2]
        return int(major), int(minor)
    except ImportError:
        return 0, 0


def cases_for(
    tier: tiers.Tier, capability: tuple[int, int], triton: tuple[int, int], only: str
) -> Iterator[Case]:
    """The cases a card runs: Triton's where Inductor is supported, CUDA C++ everywhere."""
    inductor = tier.compile.value == "inductor" and triton > (0, 0)
    for case in catalogue.CASES.values():
        if only not in case.name or capability < case.lowest:
            continue
        if case.language in ("triton", "compile") and not inductor:
            continue
        from smforge.verify.cells import LIMITS

        if (tier.name, case.name) in LIMITS:
            continue
        yield case


def nearest(capability: tuple[int, int]) -> tuple[int, int]:
    """The tier's capability whose configurations a card takes: the highest not above it."""
    known = [t.capability for t in tiers.load().tiers.values() if t.capability]
    below = [c for c in known if c <= capability]
    return max(below, default=min(known))


def findings(tier: tiers.Tier, results: list[CaseResult]) -> tuple[str, ...]:
    """What a reader should know beyond the table."""
    found = [f"{r.name}: {r.reason}" for r in results if r.reason]
    if not tier.threshold:
        found.append(f"no threshold measured for {tier.name}: no verdict on speed")
    return tuple(found)


def line_of(case: CaseResult) -> str:
    """One line of progress."""
    if case.value is None:
        return f"{case.result:8} {case.name} {case.reason}"
    share = f", {case.fraction:.0%} of {case.ceiling_name}" if case.fraction else ""
    return f"{case.result:8} {case.name} {case.value:.0f} {case.unit}{share}"


@contextmanager
def fresh_caches() -> Iterator[None]:
    """Empty compile caches while cases run, so that "cold" means cold; the user's are not touched.

    Below the folder the activation chose for Triton's: short and without a blank.
    """
    names = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    before = {name: os.environ.get(name) for name in names}
    base = os.environ.get("TMPDIR") or tempfile.gettempdir()
    with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as folder:
        for name in names:
            os.environ[name] = str(Path(folder) / name.split("_")[0].lower())
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _kernels() -> str:
    """A hash of the Triton kernels and their configurations."""
    from smforge.verify.matrix import digest_of

    folder = Path(catalogue.__file__).parent
    return digest_of(sorted([*folder.glob("triton_*.py"), folder / "tuning.py"]))[:16]


def _tuning_file() -> Path:
    folder = tables.workspace() if tables.in_workspace() else Path.home() / ".cache" / "smforge"
    return folder / ".smforge" / "verify" / "tuned.json"
