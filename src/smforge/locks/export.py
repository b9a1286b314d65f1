"""Exports of pixi.lock for conda and mamba users: envs/<tier>/<subdir>.explicit.txt and .yml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rattler import PackageRecord

from smforge import tiers
from smforge.locks import manifest, read
from smforge.locks.check import Checker
from smforge.locks.manifest import Platform, Requirement
from smforge.locks.read import Package
from smforge.tables import dotted

_BUILD = "./pixiw run smforge channel build"


def exports(manifest_path: Path) -> dict[Path, str]:
    """File -> text, for every tier and platform; paths are relative to the workspace."""
    workspace = manifest.load(manifest_path)
    lock = read.load(manifest_path.with_name("pixi.lock"))
    checker = Checker(workspace, lock)
    files: dict[Path, str] = {}
    for environment, platform, requirements in workspace.targets():
        tier = tiers.load().tiers.get(environment.name)
        if tier is None:
            continue
        locked = lock.find(environment.name, platform) or ()
        packages = [checker.resolved(package, platform.subdir) for package in locked]
        folder = Path("envs") / tier.name
        # A stack whose pytorch is built here is nothing without it: no file that looks complete.
        if not any(p.path and p.name.startswith("pytorch") for p in packages):
            text = explicit(tier, platform, packages)
            files[folder / f"{platform.subdir}.explicit.txt"] = text
        text = environment_yml(tier, platform, requirements, packages, workspace.channels)
        files[folder / f"{platform.subdir}.environment.yml"] = text
    return files


def explicit(tier: tiers.Tier, platform: Platform, packages: list[Package]) -> str:
    """Every package of the channel by URL and sha256, in an order that can be installed."""
    name, file = f"smforge-{tier.name}", f"envs/{tier.name}/{platform.subdir}.explicit.txt"
    own = [package for package in packages if package.path]
    binary = {package.name: package for package in packages if package.url}
    order = PackageRecord.sort_topologically([package.record for package in binary.values()])
    lines = [
        f"# smforge, tier {tier.name} on {platform.subdir}: every package of pixi.lock that comes",
        "# from conda-forge, made by `smforge export`.",
        f"# platform: {platform.subdir}",
        f"#     conda create -n {name} --file {file}",
        "# conda 24.9 or newer reads the sha256 and checks it; an older one refuses these lines.",
        "# mamba create takes the same options.",
        *_needs(tier),
        *_own_packages(name, own),
        "@EXPLICIT",
    ]
    for record in order:
        package = binary[str(record.name.normalized)]
        lines.append(f"{package.url}#sha256:{package.entry['sha256']}")
    return "\n".join(lines) + "\n"


def environment_yml(
    tier: tiers.Tier,
    platform: Platform,
    requirements: tuple[Requirement, ...],
    packages: list[Package],
    channels: tuple[str, ...],
) -> str:
    """What pixi.toml names, each at its locked version and build; the solver adds the rest."""
    name, file = f"smforge-{tier.name}", f"envs/{tier.name}/{platform.subdir}.environment.yml"
    held = {package.name: package for package in packages}
    named = sorted({item.name for item in requirements if not item.path})
    lines = [
        f"# smforge, tier {tier.name} on {platform.subdir}: what pixi.toml names, each at its",
        "# locked version and build, made by `smforge export`; conda's solver adds the rest.",
        f"#     conda env create -f {file}",
        "# mamba env create takes the same options.",
        *_needs(tier),
        *_own_packages(name, [package for package in packages if package.path]),
        f"name: {name}",
        "channels:",
        *(f"  - {_channel(url)}" for url in channels),
        "dependencies:",
        *(f"  - {item}={held[item].record.version}={held[item].record.build}" for item in named),
        "variables:",
        *(f"  {key}: {value!r}" for key, value in _variables(tier)),
    ]
    return "\n".join(lines) + "\n"


def _needs(tier: tiers.Tier) -> Iterator[str]:
    """What pixi asks of a machine before it installs the tier, and these files cannot ask."""
    if tier.capability and tier.cuda_driver:
        driver, arch = dotted(tier.cuda_driver), dotted(tier.capability)
        yield f"# The machine needs a driver for CUDA {driver} or newer, and a GPU of compute"
        yield f"# capability {arch} or newer: nothing checks it at install."


def _own_packages(name: str, own: list[Package]) -> Iterator[str]:
    """How to add what no public channel has: it always ends the header."""
    names = ["smforge", *(package.name for package in own)]
    specs = ["smforge", *(f"{package.name}={package.record.version}" for package in own)]
    yield f"# Left out, because no public channel has them: {', '.join(names)}. In the checkout,"
    yield f"#     {_BUILD} {' '.join(names)}"
    yield "# makes a channel of them, and this adds them:"
    yield f"#     conda install -n {name} -c ./channel -c conda-forge {' '.join(specs)}"


def _channel(url: str) -> str:
    return url.removeprefix("https://conda.anaconda.org/").rstrip("/")


def _variables(tier: tiers.Tier) -> Iterator[tuple[str, str]]:
    yield "SMFORGE_TIER", tier.name
    if tier.torch_cuda_arch_list:
        yield "TORCH_CUDA_ARCH_LIST", tier.torch_cuda_arch_list
