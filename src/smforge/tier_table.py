"""The table of tiers: envs/tiers.toml as frozen dataclasses, validated when it is loaded."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smforge.errors import ConfigurationError
from smforge.tables import build, convert, data_file, dotted, read_toml, shown

Capability = tuple[int, int]
SUBDIRS = {"win": "win-64", "linux": "linux-64"}


@dataclass(frozen=True)
class Stack:
    """What one platform installs together; `triton` and `cuda` are "" where there is none."""

    name: str = field(init=False, default="")
    python: str
    pytorch: str
    triton: str
    triton_package: str
    cuda: str
    nvcc: str
    arch_list: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Wheel:
    """A stack of the wheel engine: exact versions, and the driver and cards it runs on."""

    torch: str
    triton: str
    cuda: str
    cuda_driver: tuple[int, int]
    python: tuple[str, ...]
    arch_list: tuple[str, ...]


@dataclass(frozen=True)
class Cuda:
    """Host compilers that one CUDA's nvcc accepts: (least, greatest) _MSC_VER, newest gcc."""

    msc_ver: tuple[int, ...]
    gcc: int


@dataclass(frozen=True)
class Decision:
    """A choice that is made once, with the reason that is printed."""

    value: str
    reason: str


@dataclass(frozen=True)
class Cudnn:
    """Whether cuDNN is used; `below` is the first version that dropped the tier's cards."""

    value: bool
    reason: str
    below: str = ""


@dataclass(frozen=True)
class Support:
    """How well a dtype is supported: level is "yes", "no" or "emulated"."""

    level: str
    reason: str


@dataclass(frozen=True)
class Facts:
    """Where each group of facts about a tier comes from."""

    arch: str
    driver: str
    stack: str
    dtypes: str


@dataclass(frozen=True)
class Tier:
    """One GPU generation and everything that is promised for it.

    `capability` and `cuda_driver` are (major, minor) pairs, None for cpu. `opt_in` names the
    subdirs where `default` never picks the tier.
    """

    name: str = field(init=False, default="")
    architecture: str
    gpus: tuple[str, ...]
    stack: dict[str, Stack]
    wheels: tuple[str, ...]
    compile: Decision
    amp: Decision
    cudnn: Cudnn
    dtypes: dict[str, Support]
    facts: Facts
    capability: tuple[int, int] | None = None
    cuda_driver: tuple[int, int] | None = None
    driver_hint: dict[str, str] = field(default_factory=dict)
    torch_cuda_arch_list: str = ""
    opt_in: tuple[str, ...] = ()
    # Dense operations a multiprocessor does each clock, by dtype; GeForce cards where they differ.
    flops_per_clock: dict[str, int] = field(default_factory=dict)
    flops_per_clock_geforce: dict[str, int] = field(default_factory=dict)
    # Lowest fraction of the ceiling of a case of `verify`, where it was measured.
    threshold: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """All tiers in rising order of capability, the stacks, CUDAs and torch/Triton pairs."""

    tiers: dict[str, Tier]
    stacks: dict[str, Stack]
    wheels: dict[str, Wheel]
    pairs: dict[str, str]
    cuda: dict[str, Cuda]

    def __getitem__(self, name: str) -> Tier:
        try:
            return self.tiers[name]
        except KeyError:
            known = ", ".join(self.tiers)
            raise ConfigurationError(f"no tier '{name}'; the tiers are {known}") from None

    def gpu_tiers(self) -> list[Tier]:
        """The tiers with a GPU, highest capability first: pixi.toml's declaration order."""
        return [t for t in reversed(self.tiers.values()) if t.capability]


# -------------------------------------------------------------------------------------------------
# Loading
# -------------------------------------------------------------------------------------------------


@functools.cache
def load(path: Path | None = None) -> Table:
    """The validated table of `path` (envs/tiers.toml, or the copy in the installed package).

    Raises:
        ConfigurationError: one line that names file, table and key.
    """
    path = path or data_file("tiers.toml")
    raw, where = read_toml(path), shown(path)
    unknown = set(raw) - {"schema", "pairs", "cuda", "stack", "wheel", "tier"}
    if unknown:
        raise ConfigurationError(f"{where}: unknown key '{min(unknown)}'")
    if raw.get("schema") != 1:
        raise ConfigurationError(f"{where}: schema is {raw.get('schema')!r}, expected 1")
    pairs = convert(dict[str, str], raw.get("pairs", {}), f"{where}: [pairs]")
    stacks = named(Stack, raw.get("stack", {}), f"{where}: [stack")
    wheels = {
        name: build(Wheel, table, f'{where}: [wheel."{name}"]')
        for name, table in raw.get("wheel", {}).items()
    }
    rows = {
        name: with_stacks(row, stacks, f"{where}: [tier.{name}]", wheels)
        for name, row in raw.get("tier", {}).items()
    }
    tiers = named(Tier, rows, f"{where}: [tier")
    cuda = {
        version: build(Cuda, row, f'{where}: [cuda."{version}"]')
        for version, row in raw.get("cuda", {}).items()
    }
    table = Table(tiers, stacks, wheels, pairs, cuda)
    check_pairs(table, where)
    check_cuda(table, where)
    check_tiers(table, where)
    return table


def named(cls: type, tables: object, where: str) -> dict[str, Any]:
    """One `cls` per sub-table, each knowing its own name."""
    if not isinstance(tables, dict):
        raise ConfigurationError(f"{where}]: expected a table of tables")
    result = {}
    for name, table in tables.items():
        item = table if isinstance(table, cls) else build(cls, table, f"{where}.{name}]")
        object.__setattr__(item, "name", name)
        result[name] = item
    return result


def with_stacks(
    row: dict[str, object], stacks: Mapping[str, Stack], where: str, wheels: Mapping[str, Wheel]
) -> dict[str, object]:
    """The tier's row with the names of its stacks checked and looked up."""
    names = convert(dict[str, str], row.get("stack", {}), f"{where} key 'stack'")
    for subdir in SUBDIRS.values():
        if names.get(subdir) not in stacks:
            raise ConfigurationError(
                f"{where} key 'stack': {subdir} names {names.get(subdir)!r}, expected one of "
                + ", ".join(stacks)
            )
    for name in convert(tuple[str, ...], row.get("wheels", []), f"{where} key 'wheels'"):
        if name not in wheels:
            raise ConfigurationError(f"{where} key 'wheels': no table [wheel.\"{name}\"]")
    return {**row, "stack": {subdir: stacks[name] for subdir, name in names.items()}}


def check_pairs(table: Table, where: str) -> None:
    """Every stack with a Triton holds a pair of the pair table."""
    stacks = [(f"[stack.{s.name}]", s.pytorch, s.triton) for s in table.stacks.values()]
    wheels = [(f'[wheel."{n}"]', w.torch, w.triton) for n, w in table.wheels.items()]
    for label, torch, triton in stacks + wheels:
        minor = ".".join(torch.split(".")[:2])
        if triton and table.pairs.get(minor) != ".".join(triton.split(".")[:2]):
            raise ConfigurationError(
                f"{where}: {label} pairs torch {torch} with Triton {triton}; [pairs] says "
                f"{table.pairs.get(minor, 'nothing of torch ' + minor)}"
            )


def check_cuda(table: Table, where: str) -> None:
    """Every CUDA of a stack says which host compilers its nvcc accepts."""
    for version, cuda in table.cuda.items():
        if len(cuda.msc_ver) != 2 or cuda.msc_ver[0] > cuda.msc_ver[1]:
            raise ConfigurationError(
                f"{where}: [cuda.\"{version}\"] key 'msc_ver': expected [least, greatest]"
            )
    for stack in table.stacks.values():
        if stack.nvcc and ".".join(stack.nvcc.split(".")[:2]) not in table.cuda:
            raise ConfigurationError(f'{where}: [stack.{stack.name}] needs [cuda."{stack.nvcc}"]')


def check_tiers(table: Table, where: str) -> None:
    """Rising capabilities, known words, and everything a tier with a GPU needs."""
    last: Capability = (0, 0)
    for tier in table.tiers.values():
        label = f"{where}: [tier.{tier.name}]"
        one_of(tier.compile.value, ("inductor", "cudagraphs", "eager"), f"{label} key 'compile'")
        one_of(tier.amp.value, ("bfloat16", "float16", "float32"), f"{label} key 'amp'")
        if set(tier.dtypes) != {"fp16", "bf16", "fp8", "tf32"}:
            raise ConfigurationError(f"{label} key 'dtypes': expected fp16, bf16, fp8 and tf32")
        for name, support in tier.dtypes.items():
            one_of(support.level, ("yes", "no", "emulated"), f"{label} key 'dtypes.{name}'")
        if tier.name == "cpu":
            continue
        if not tier.capability or not tier.cuda_driver or not tier.torch_cuda_arch_list:
            raise ConfigurationError(
                f"{label}: a GPU tier needs capability, cuda_driver and torch_cuda_arch_list"
            )
        if tier.name != f"sm{tier.capability[0]}{tier.capability[1]}":
            raise ConfigurationError(f"{label} key 'capability': does not fit the tier's name")
        if tier.capability <= last:
            raise ConfigurationError(
                f"{label} key 'capability': {dotted(tier.capability)} after {dotted(last)}, "
                "expected a rising order"
            )
        last = tier.capability


def one_of(value: str, allowed: tuple[str, ...], where: str) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{where}: found '{value}', expected one of {', '.join(allowed)}")
