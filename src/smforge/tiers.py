"""Which tier a machine gets, what a stack carries, and whether what is installed still fits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from smforge.errors import GPUError
from smforge.probe.gpu import Machine
from smforge.tables import dotted, in_workspace, pair
from smforge.tier_table import (
    SUBDIRS,
    Capability,
    Cudnn,
    Decision,
    Stack,
    Support,
    Table,
    Tier,
    Wheel,
    load,
    one_of,
)

__all__ = [
    "SUBDIRS",
    "Capability",
    "Cudnn",
    "Decision",
    "Fit",
    "Stack",
    "Support",
    "Table",
    "Tier",
    "Wheel",
    "carried",
    "carries",
    "check_installed",
    "choose",
    "command",
    "current_os",
    "load",
    "missing",
    "one_of",
    "pick",
]


@dataclass(frozen=True)
class Fit:
    """What is installed against what the machine deserves.

    `tier` is the one whose decisions (dtype, backend, cuDNN) apply; `installed` is None for a
    Python of one's own.
    """

    tier: Tier
    installed: Tier | None
    warning: str | None


# -------------------------------------------------------------------------------------------------
# Picking
# -------------------------------------------------------------------------------------------------


def current_os() -> str:
    """ "win" or "linux": the two systems there are environments for."""
    return "win" if sys.platform == "win32" else "linux"


def pick(
    capability: Capability | None, cuda_driver: tuple[int, int] | None, os: str
) -> tuple[Tier, str]:
    """The tier that pixi installs for `default` on such a machine, and why.

    pixi's rule: the first platform in declaration order (highest capability first) whose
    `__cuda` and `__cuda_arch` the machine meets; cpu when none does.
    """
    table = load()
    if capability is None or cuda_driver is None:
        return table["cpu"], "no NVIDIA GPU with a working driver was found"
    driver = f"the driver's CUDA {dotted(cuda_driver)}"
    deserved: Tier | None = None
    for tier in table.gpu_tiers():
        assert tier.capability  # the loader holds both
        assert tier.cuda_driver
        if SUBDIRS[os] in tier.opt_in or tier.capability > capability:
            continue
        deserved = deserved or tier
        if tier.cuda_driver > cuda_driver:
            continue
        if tier is deserved:
            return tier, (
                f"compute capability {dotted(capability)} and {driver} meet {tier.name}'s floors "
                f"({dotted(tier.capability)}, CUDA {dotted(tier.cuda_driver)})"
            )
        return tier, f"{driver} is too old for {deserved.name}: {driver_advice(deserved, os)}"
    if deserved:
        return table["cpu"], (
            f"{driver} is too old for {deserved.name}: {driver_advice(deserved, os)}"
        )
    lowest = table.gpu_tiers()[-1]
    if lowest.capability and lowest.capability <= capability:
        return table["cpu"], (
            f"compute capability {dotted(capability)}: {lowest.name} is built from source on "
            f"{SUBDIRS[os]} and only on request ({command('install', '-e', lowest.name)})"
        )
    return table["cpu"], f"compute capability {dotted(capability)} is below every tier"


def driver_advice(tier: Tier, os: str) -> str:
    """Which driver would give a machine this tier."""
    assert tier.cuda_driver
    hint = tier.driver_hint.get(os, "")
    return f"update the driver to {hint} or newer (CUDA {dotted(tier.cuda_driver)}) to get it"


def choose(machine: Machine, os: str | None = None) -> tuple[Tier, str]:
    """`pick` for a machine; of several GPUs the lowest counts, and the reason says so."""
    tier, reason = pick(machine.capability, machine.cuda_driver, os or current_os())
    kinds = {gpu.capability for gpu in machine.gpus}
    if len(kinds) > 1 and machine.capability:
        reason += (
            f"; {len(machine.gpus)} GPUs, the lowest capability ({dotted(machine.capability)}) "
            "counts: CONDA_OVERRIDE_CUDA_ARCH chooses another"
        )
    return tier, reason


def missing(tier: Tier, machine: Machine) -> str:
    """What a machine lacks for a GPU tier, in one line, or ""."""
    assert tier.capability
    assert tier.cuda_driver
    needs = f"{tier.name} needs"
    if machine.capability is None or machine.cuda_driver is None:
        return (
            f"{needs} a GPU of compute capability {dotted(tier.capability)} or higher, and no "
            "NVIDIA GPU with a working driver was found"
        )
    if machine.capability < tier.capability:
        return (
            f"{needs} compute capability {dotted(tier.capability)} or higher, and {machine.names} "
            f"has {dotted(machine.capability)}"
        )
    if machine.cuda_driver < tier.cuda_driver:
        return (
            f"{needs} a driver for CUDA {dotted(tier.cuda_driver)} or newer, and driver "
            f"{machine.driver} is for CUDA {dotted(machine.cuda_driver)}"
        )
    return ""


def carries(tier: Tier, capability: Capability, subdir: str | None = None) -> bool:
    """Whether the tier's stack has code for a card of this capability."""
    return carried(tier.stack[subdir or SUBDIRS[current_os()]].arch_list, capability)


def carried(arch_list: Iterable[str], capability: Capability) -> bool:
    """Whether an arch list has a cubin of the same major, minor not above, or PTX not above."""
    for entry in arch_list:
        arch = pair(entry.removesuffix("+PTX"), f"arch list entry '{entry}'")
        if arch[0] == capability[0] and arch[1] <= capability[1]:
            return True
        if entry.endswith("+PTX") and arch <= capability:
            return True
    return False


def check_installed(environ: Mapping[str, str], machine: Machine) -> Fit:
    """Does what is installed (SMFORGE_TIER) still fit this machine?

    Raises:
        GPUError: the stack does not carry the card, its driver floor is not met, or the card is
            gone: one line with the command that mends it.
    """
    table = load()
    name = environ.get("SMFORGE_TIER", "")
    deserved, reason = choose(machine)
    by_card = highest_not_above(machine.capability)
    if not name:
        return Fit(by_card, None, None)
    installed = table[name]
    again = command("install", "" if environ.get("PIXI_ENVIRONMENT_NAME", "") != name else
                    f"-e {deserved.name}")  # fmt: skip
    if installed.capability is None:
        if not machine.gpus:
            return Fit(installed, installed, None)
        return Fit(installed, installed, cpu_warning(environ, machine, deserved, reason, again))
    if machine.capability is None or machine.cuda_driver is None:
        raise GPUError(
            f"the installed environment is for {name}, but no GPU with a working driver is here: "
            f"{again} chooses again"
        )
    floor, arch_list = limits(installed, environ)
    if floor > machine.cuda_driver:
        raise GPUError(
            f"driver {machine.driver} (CUDA {dotted(machine.cuda_driver)}) is older than the "
            f"installed {name} needs (CUDA {dotted(floor)}): update the driver, or {again}"
        )
    if not carried(arch_list, machine.capability):
        if deserved is installed:
            raise GPUError(
                f"no tier carries compute capability {dotted(machine.capability)} "
                f"({machine.names}) yet: {command('install', '-e cpu')} runs on the CPU"
            )
        raise GPUError(
            f"the installed {name} has no code for compute capability "
            f"{dotted(machine.capability)} ({machine.names}): {again} chooses again"
        )
    warning = None
    if deserved is not installed and not pinned(environ, name, machine.capability, installed):
        warning = f"{name} is installed, this machine would get {deserved.name}: {again}"
    return Fit(by_card, installed, warning)


def pinned(environ: Mapping[str, str], name: str, capability: Capability, installed: Tier) -> bool:
    """Whether the user asked for this lower tier by name (`-e sm80` on an 8.6 card): no warning."""
    asked = environ.get("PIXI_ENVIRONMENT_NAME", "") == name
    return asked and installed.capability is not None and installed.capability <= capability


def limits(tier: Tier, environ: Mapping[str, str]) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Driver floor and arch list of what is installed: the wheel engine's stack or the tier's."""
    wheel = load().wheels.get(environ.get("SMFORGE_WHEELS", ""))
    if wheel:
        return wheel.cuda_driver, wheel.arch_list
    assert tier.cuda_driver
    return tier.cuda_driver, tier.stack[SUBDIRS[current_os()]].arch_list


def cpu_warning(
    environ: Mapping[str, str], machine: Machine, deserved: Tier, reason: str, again: str
) -> str:
    """Why a machine with a card runs on its CPU, and what would change that."""
    if deserved.capability is None:
        return f"running on the CPU: {reason}"
    if environ.get("SMFORGE_WHEELS"):
        return (
            f"running on the CPU beside {machine.names}: the wheel environment is for the CPU; "
            f"with pixi on PATH, {again} takes {deserved.name}"
        )
    return (
        f"running on the CPU beside {machine.names}: the cpu environment is installed; "
        f"{again} takes {deserved.name}"
    )


def highest_not_above(capability: Capability | None) -> Tier:
    """The highest tier that is not above a card; cpu without one, or below every tier."""
    table = load()
    for tier in table.gpu_tiers():
        if capability and tier.capability and tier.capability <= capability:
            return tier
    return table["cpu"]


def command(*words: str) -> str:
    """A command as this user types it: through the wrapper in a workspace, else by its own name.

    `command("train")` is "./pixiw run train"; `command("install", "-e sm86")` is
    "./pixiw install -e sm86".
    """
    line = " ".join(word for word in words if word)
    if not in_workspace():
        return f"smforge {line}"
    wrapper = "pixiw" if os.name == "nt" else "./pixiw"
    return f"{wrapper} {line}" if words[0] in ("install", "info") else f"{wrapper} run {line}"
