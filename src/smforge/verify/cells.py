"""The matrix without a GPU as data: which compiler compiles which kernel for which tier.

A cell is one kernel for one tier by one toolchain. `promised` cells must pass; the others are tried
and told, such as Triton for cards that Inductor leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smforge import tiers
from smforge.kernels import catalogue
from smforge.kernels.catalogue import Case
from smforge.kernels.tuning import SHARED_KIB, Capability, configs

CUDA_SOURCES = Path(catalogue.__file__).with_name("cuda")

# What a compiler is known not to do; anything else that fails breaks a promise.
LIMITS = {
    ("sm70", "attention-fp16"): "Triton 3.2 aborts on two chained products for sm_70",
    ("sm70", "attention-backward-fp16"): "Triton 3.2 aborts on two chained products for sm_70",
}
NVRTC = {"nvrtc-11.8": ((3, 5), (9, 0)), "nvrtc-12.9": ((5, 0), (12, 0))}
# Older cards compile with the newest Triton, but Inductor and its support start at 7.0.
_UNSUPPORTED_TRITON = "3.7"
_BELOW_INDUCTOR = "compiles, not supported by Inductor"


@dataclass(frozen=True)
class Cell:
    """One kernel, one tier, one toolchain (a name of envs/tools), and the jobs that compile it."""

    tier: str
    case: str
    tool: str
    promised: bool
    note: str = ""
    jobs: tuple[dict[str, Any], ...] = ()
    instruction: str = ""  # must stand in the PTX of one of the jobs
    shared_limit: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: "passed", "failed" or "not-run", why, and the compiler's figures."""

    cell: Cell
    result: str
    reason: str = ""
    version: str = ""
    seconds: float = 0.0
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether the tier promised this and it did not come true."""
        return self.cell.promised and self.result == "failed"


def all_cells(only: str = "", tier: str = "") -> list[Cell]:
    """Every cell whose case name holds `only`, of one tier or of all."""
    found = []
    for row in tiers.load().tiers.values():
        if row.capability and tier in ("", row.name):
            found += [*_triton_cells(row), *_cuda_cells(row)]
    return [cell for cell in found if only in cell.case]


def _triton_cells(tier: tiers.Tier) -> Iterator[Cell]:
    assert tier.capability
    minor = tier.stack["linux-64"].triton or _UNSUPPORTED_TRITON
    supported = tier.compile.value == "inductor"
    if tier.capability < (5, 0):
        return
    for case in catalogue.TRITON:
        if supported and tier.capability < case.lowest:
            continue
        if not supported and case.lowest > (7, 0):
            continue
        cell = _triton_cell(tier, case, minor)
        if not supported:
            cell = replace(cell, promised=False, note=_BELOW_INDUCTOR, instruction="")
        yield cell


def _triton_cell(tier: tiers.Tier, case: Case, minor: str) -> Cell:
    assert tier.capability
    version = tuple(int(part) for part in minor.split("."))
    config = configs(case.family, case.dtype, tier.capability, (version[0], version[1]))[0]
    jobs = tuple(
        {
            "module": program.module,
            "function": program.function,
            "types": program.types,
            "constants": dict(program.constants),
            "num_warps": program.num_warps,
            "num_stages": program.num_stages,
            "capability": _number(tier.capability),
        }
        for program in catalogue.programs(case, config)
    )
    limit = LIMITS.get((tier.name, case.name), "")
    wanted = catalogue.tensor_core_instruction(tier.capability) if case.tensor_cores else ""
    shared = SHARED_KIB[tier.capability] * 1024
    return Cell(tier.name, case.name, f"triton-{minor}", not limit, limit, jobs, wanted, shared)


def _cuda_cells(tier: tiers.Tier) -> Iterator[Cell]:
    assert tier.capability
    for tool, (lowest, highest) in NVRTC.items():
        if not lowest <= tier.capability <= highest:
            continue
        for case in catalogue.CUDA:
            source = str(CUDA_SOURCES / f"{case.family}.cu")
            job = {"source": source, "capability": _number(tier.capability)}
            yield Cell(tier.name, case.name, tool, True, "", (job,), "",
                       SHARED_KIB[tier.capability] * 1024)  # fmt: skip


def _number(capability: Capability) -> int:
    return capability[0] * 10 + capability[1]
