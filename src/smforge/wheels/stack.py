"""Which pinned stack a machine gets from the wheel engine, and why, or a GPUError."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from smforge import tiers
from smforge.errors import ConfigurationError, GPUError, ToolchainError
from smforge.probe.gpu import Machine
from smforge.tables import dotted
from smforge.wheels.manifest import DEFAULT, Manifest

# The environment of linters: its packages come from envs/tools/lint.txt and no torch with them.
TOOLS_ENVIRONMENT = "dev"
_TOOLS_PYTHON = ("3.11", "3.14")
_SUBDIRS = {("Linux", "x86_64"): "linux-64", ("Windows", "AMD64"): "win-64"}
_PIXI = "the pixi engine has a stack for it (SMFORGE_ENGINE=pixi, where GitHub can be reached)"


@dataclass(frozen=True)
class Stack:
    """What one environment is built from, for one machine.

    `wheels` names the torch version ("" for tools), `python` is the lowest and the highest minor
    version with wheels, `virtual_packages` are in pixi's notation.
    """

    environment: str
    tier: str
    subdir: str
    wheels: str
    requirements: Path
    python: tuple[str, str]
    virtual_packages: tuple[str, ...]
    reason: str

    @property
    def platform(self) -> str:
        """pixi.toml's name of the platform: "linux-64-sm86"."""
        return f"{self.subdir}-{self.tier}"

    @property
    def digest(self) -> str:
        """sha256 of the pins, which is what changes when any package does."""
        return hashlib.sha256(self.requirements.read_bytes()).hexdigest()

    @property
    def folder_name(self) -> str:
        """Name of the environment's folder: another tier or another pin is another folder."""
        kind = self.tier if self.wheels else self.environment
        return f"{kind}-{self.digest[:8]}"

    def download_size(self, python: str) -> int | None:
        """Bytes to download for Python "3.11" with an empty pip cache, as measured when pinning."""
        text = self.requirements.read_text("utf-8")
        line = rf"^# download {re.escape(self.subdir)} {re.escape(python)}: (\d+)$"
        found = re.search(line, text, re.MULTILINE)
        return int(found[1]) if found else None


def subdir() -> str:
    """conda's name of this system; ToolchainError where smforge has no environments."""
    here = (platform.system(), platform.machine())
    if here not in _SUBDIRS:
        raise ToolchainError(
            f"smforge has environments for linux-64 and win-64; this is {here[0]} on {here[1]}"
        )
    return _SUBDIRS[here]


def choose(manifest: Manifest, environment: str, machine: Machine) -> Stack:
    """The stack of `environment` on this machine.

    Raises ConfigurationError (no such environment, no such pins) or GPUError (the machine cannot
    run it, or no wheels carry its card).
    """
    if environment not in manifest.environments:
        known = ", ".join(manifest.environments)
        raise ConfigurationError(f"no environment '{environment}'; pixi.toml has {known}")
    here = subdir()
    if environment == TOOLS_ENVIRONMENT:
        return _stack(manifest, environment, tiers.load()["cpu"], "", "its tools need no GPU")
    tier, reason = _tier(environment, machine, here)
    if tier.capability is None:
        return _stack(manifest, environment, tier, tier.wheels[0], reason)
    return _stack(manifest, environment, tier, _carrying(tier, machine), reason)


def _tier(environment: str, machine: Machine, here: str) -> tuple[tiers.Tier, str]:
    table = tiers.load()
    if environment != DEFAULT:
        tier = table[environment]
        if tier.capability is not None:
            _check_machine(tier, machine, here)
        return tier, f"asked for by name (-e {environment})"
    if here == "win-64" and machine.capability is not None:
        return table["cpu"], "wheels for Windows are CPU builds: your GPU is not used; pixi uses it"
    tier, reason = tiers.choose(machine)
    if tier.capability is None and machine.capability is not None:
        raise GPUError(f"{reason}; without the GPU: {tiers.command('-e cpu TASK')}")
    return tier, reason


def _check_machine(tier: tiers.Tier, machine: Machine, here: str) -> None:
    """GPUError unless the machine meets the tier's platform, as pixi requires for `-e`."""
    if here == "win-64":
        raise GPUError(f"the wheel engine has no GPU build for Windows; {_PIXI}")
    if missing := tiers.missing(tier, machine):
        raise GPUError(missing)


def _carrying(tier: tiers.Tier, machine: Machine) -> str:
    """The newest stack with code for the card that the driver can run, or a GPUError."""
    assert machine.capability
    assert machine.cuda_driver
    table = tiers.load()
    if not tier.wheels:
        raise GPUError(f"no wheels of torch carry {tier.name} ({machine.names}); {_PIXI}")
    for name in tier.wheels:
        wheel = table.wheels[name]
        fits = machine.cuda_driver >= wheel.cuda_driver
        if fits and tiers.carried(wheel.arch_list, machine.capability):
            return name
    floor = min(table.wheels[name].cuda_driver for name in tier.wheels)
    raise GPUError(
        f"no wheels of torch run on {machine.names} with its driver: they need compute capability "
        f"{dotted(tier.capability or (0, 0))} and a driver for CUDA {dotted(floor)}, found "
        f"{dotted(machine.capability)} and CUDA {dotted(machine.cuda_driver)}; {_PIXI}"
    )


def _stack(
    manifest: Manifest, environment: str, tier: tiers.Tier, wheels: str, reason: str
) -> Stack:
    name = f"wheels/{wheels}.txt" if wheels else "tools/lint.txt"
    requirements = manifest.root / "envs" / name
    if not requirements.is_file():
        raise ConfigurationError(f"envs/{name} is missing; `git checkout envs` brings it back")
    wheel = tiers.load().wheels.get(wheels)
    return Stack(
        environment=environment,
        tier=tier.name,
        subdir=subdir(),
        wheels=wheels,
        requirements=requirements,
        python=(wheel.python[0], wheel.python[-1]) if wheel else _TOOLS_PYTHON,
        virtual_packages=_virtual_packages(tier, wheel),
        reason=reason,
    )


def _virtual_packages(tier: tiers.Tier, wheel: tiers.Wheel | None) -> tuple[str, ...]:
    """What the platform requires, as pixi writes it: the card, then pixi's floor of a subdir."""
    card: tuple[str, ...] = ()
    if tier.capability and wheel:
        card = (f"__cuda={dotted(wheel.cuda_driver)}", f"__cuda_arch={dotted(tier.capability)}")
    if sys.platform == "win32":
        return (*card, "__win=10.0", "__archspec=0=x86_64")
    return (*card, "__unix=0=0", "__linux=4.18", "__glibc=2.28", "__archspec=0=x86_64")
