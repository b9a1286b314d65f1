"""Where and how to train: device, dtype, TF32, cuDNN, compile backend, each decided once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from smforge import tiers
from smforge.errors import ConfigurationError, GPUError
from smforge.peak import peak_flops
from smforge.probe import gpu
from smforge.probe.gpu import Machine
from smforge.tiers import Decision, Tier

GPT2_MEMORY = 7.5 * 2**30  # cards sold as 8 GB report a little less
TIER_NAMES = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class Place:
    """The device to train on ("cpu" or "cuda") and the tier whose decisions apply."""

    device: str
    tier: Tier
    reason: str
    warning: str = ""


@dataclass(frozen=True)
class Decisions:
    """What the tier, the device and the command line decide, with the reason of each."""

    dtype: Decision
    tf32: Decision
    cudnn: Decision
    compile: Decision
    optimizer: Decision

    def lines(self) -> list[str]:
        """One line for each decision, for people."""
        names = ("dtype", "tf32", "cudnn", "compile", "optimizer")
        chosen = ((name, getattr(self, name)) for name in names)
        return [f"{name:9} {one.value}: {one.reason}" for name, one in chosen]


# -------------------------------------------------------------------------------------------------
# The device
# -------------------------------------------------------------------------------------------------


def here(asked: str | None) -> Place:
    """`place` for this machine."""
    return place(asked, os.environ, gpu.detect())


def place(
    asked: str | None,
    environ: Mapping[str, str],
    machine: Machine,
    problem: Callable[[], str] | None = None,
) -> Place:
    """Choose device and tier; `problem` says why torch cannot use the GPU ("" if it can).

    Raises:
        ConfigurationError: there is no such tier.
        GPUError: the tier asked for, or the one that is installed, cannot run on this machine.
    """
    wanted = tiers.load()[asked] if asked else None
    if wanted and wanted.capability is None:
        return Place("cpu", wanted, "asked for with --tier cpu")
    if wanted and (missing := tiers.missing(wanted, machine)):
        raise GPUError(f"--tier {missing}; --tier cpu always works")
    fit = tiers.check_installed(environ, machine)
    if wanted and fit.installed and fit.installed.capability is None:
        raise GPUError(f"--tier {wanted.name}: {fit.warning}")
    tier = wanted or fit.tier
    if tier.capability is None:
        return Place("cpu", tier, "no GPU is used", fit.warning or "")
    if found := (problem or gpu_problem)():
        if wanted or fit.installed:
            raise GPUError(f"{found}; --tier cpu trains on the CPU")
        cpu = tiers.load()["cpu"]
        return Place("cpu", cpu, "no GPU is used", f"training on the CPU: {found}")
    return Place("cuda", tier, "asked for with --tier" if wanted else machine.names,
                 fit.warning or "")  # fmt: skip


def gpu_problem() -> str:
    """Why this torch cannot use the GPU, or "": found out by using it."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    try:
        return "" if (torch.ones(1, device="cuda") + 1).item() == 2 else "the GPU computes wrongly"
    except Exception as error:  # torch raises RuntimeError, AssertionError and its own kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return f"torch {torch.__version__} cannot use the GPU ({reason})"


def default_preset(place: Place) -> str:
    """gpt2 on a GPU that can hold it, else tiny."""
    if place.device == "cpu":
        return "tiny"
    memory = torch.cuda.get_device_properties(0).total_memory
    return "gpt2" if memory >= GPT2_MEMORY else "tiny"


# -------------------------------------------------------------------------------------------------
# What follows from it
# -------------------------------------------------------------------------------------------------


def decide(
    place: Place,
    dtype: str | None = None,
    compile: bool | None = None,
    cudnn_version: Callable[[], int | None] = torch.backends.cudnn.version,
) -> Decisions:
    """Decide everything else; `dtype` and `compile` are what the command line says, if it does.

    `cudnn_version` returns torch's own number for it (91002 is 9.10.2).
    """
    tier, on_gpu = place.tier, place.device == "cuda"
    tf32 = tier.dtypes["tf32"]
    return Decisions(
        dtype=_dtype(tier, on_gpu, dtype),
        tf32=Decision("on" if on_gpu and tf32.level == "yes" else "off", tf32.reason),
        cudnn=cudnn(tier, cudnn_version() or 0) if on_gpu else Decision("off", "no GPU is used"),
        compile=_compile(tier, compile),
        optimizer=_optimizer(on_gpu),
    )


def _dtype(tier: Tier, on_gpu: bool, asked: str | None) -> Decision:
    if not asked:
        return tier.amp
    if asked == "float16" and not on_gpu:
        raise ConfigurationError("--dtype float16 needs a GPU: take float32 or bfloat16")
    reason = "asked for with --dtype"
    if asked in TIER_NAMES and (support := tier.dtypes[TIER_NAMES[asked]]).level != "yes":
        reason += f", though {tier.name} has it as '{support.level}' ({support.reason})"
    return Decision(asked, reason)


def cudnn(tier: Tier, version: int) -> Decision:
    """ "on" or "off" for torch.backends.cudnn; `version` is torch's number (91002: 9.10.2)."""
    if not tier.cudnn.value:
        return Decision("off", tier.cudnn.reason)
    # 8.9.2 is 8902, 9.10.2 is 91002.
    major, rest = (version // 10000, version % 10000) if version >= 90000 else divmod(version, 1000)
    first_without = tuple(int(n) for n in tier.cudnn.below.split(".") if n)
    if first_without and (major, rest // 100) >= first_without:
        return Decision("off", f"{tier.cudnn.reason}; this torch has {major}.{rest // 100}")
    return Decision("on", tier.cudnn.reason)


def _compile(tier: Tier, asked: bool | None) -> Decision:
    if asked is None:
        return tier.compile
    if not asked:
        return Decision("eager", "asked for with --no-compile")
    backend = "inductor" if tier.compile.value == "eager" else tier.compile.value
    return Decision(backend, "asked for with --compile")


def _optimizer(on_gpu: bool) -> Decision:
    major, minor = (int(n) for n in torch.__version__.split(".")[:2])
    if on_gpu or (major, minor) >= (2, 4):
        return Decision("fused AdamW", "one kernel for all parameters")
    return Decision("AdamW", f"torch {major}.{minor} has no fused AdamW for the CPU")


def peak(place: Place, decisions: Decisions, machine: Machine | None = None) -> float | None:
    """FLOP/s that the card could reach in the dtype decided on; None where that is unknown."""
    if place.device == "cpu":
        return None
    name = torch.cuda.get_device_name(0)
    card = next((g for g in (machine or gpu.detect()).gpus if g.name == name), None)
    full = "tf32" if decisions.tf32.value == "on" else "fp32"
    return (
        peak_flops(place.tier, card, TIER_NAMES.get(decisions.dtype.value, full)) if card else None
    )


@contextmanager
def applied(decisions: Decisions, device: str) -> Iterator[None]:
    """Set torch's global switches as decided, and set them back afterwards."""
    before = (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.enabled,
        torch.are_deterministic_algorithms_enabled(),
    )
    # The older spelling on purpose: it is the one that torch 2.0 to 2.13 share.
    torch.set_float32_matmul_precision("high" if decisions.tf32.value == "on" else "highest")
    torch.backends.cudnn.enabled = decisions.cudnn.value == "on"
    # On the CPU a resumed run repeats the uninterrupted one bit for bit. Eager mode does so by
    # itself; inductor would add up an embedding's gradient with atomics, in any order. (On a GPU
    # the batches are equal and the sums so to rounding.) Setting this imports all of inductor.
    if device == "cpu" and decisions.compile.value != "eager":
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.enabled = before[1]
        if torch.are_deterministic_algorithms_enabled() != before[2]:
            torch.use_deterministic_algorithms(before[2])
