"""The catalogue, the configurations and the cells of the matrix agree with the tiers."""

from __future__ import annotations

import pytest

from smforge import tiers
from smforge.kernels import catalogue
from smforge.kernels.tuning import SHARED_KIB, configs
from smforge.verify import cells, nvcc_build

GPU_TIERS = [tier for tier in tiers.load().tiers.values() if tier.capability]


@pytest.mark.parametrize("tier", GPU_TIERS, ids=lambda tier: tier.name)
def test_every_tier_has_cells_of_a_compiler_that_knows_it(tier: tiers.Tier) -> None:
    tools = {cell.tool for cell in cells.all_cells(tier=tier.name)}
    if tier.name == "sm35":
        assert tools == {"nvrtc-11.8"}
    else:
        assert f"triton-{tier.stack['linux-64'].triton or '3.7'}" in tools


@pytest.mark.parametrize("tier", GPU_TIERS, ids=lambda tier: tier.name)
def test_a_dtype_the_tier_has_not_is_not_asked_for(tier: tiers.Tier) -> None:
    named = {"bf16": "bf16", "fp8": "fp8", "tf32": "tf32"}
    for cell in cells.all_cells(tier=tier.name):
        case = catalogue.CASES[cell.case]
        if case.dtype in named:
            assert tier.dtypes[named[case.dtype]].level == "yes", cell.case


def test_tensor_core_cells_name_their_instruction() -> None:
    wanted = {c.tier: c.instruction for c in cells.all_cells("gemm-fp16") if c.promised}
    assert wanted["sm70"] == wanted["sm75"] == wanted["sm89"] == wanted["sm120"] == "mma.sync"
    assert wanted["sm90"] == "wgmma.mma_async"
    assert wanted["sm100"] == "tcgen05.mma"


def test_cells_below_inductor_promise_nothing() -> None:
    found = [c for c in cells.all_cells(tier="sm61") if c.tool.startswith("triton")]
    assert found
    assert not any(cell.promised for cell in found)


def test_known_limits_name_cells_that_exist() -> None:
    known = {(cell.tier, cell.case) for cell in cells.all_cells()}
    assert set(cells.LIMITS) <= known


def test_the_nvcc_of_cuda_13_starts_at_turing() -> None:
    assert next(cell.tier for cell in nvcc_build.cells()) == "sm75"


@pytest.mark.parametrize(
    ("tier", "case"),
    [(t, c) for t in GPU_TIERS for c in catalogue.TRITON if (t.capability or (0, 0)) >= c.lowest],
    ids=lambda value: value.name,
)
def test_configurations_name_every_constant_of_the_kernel(
    tier: tiers.Tier, case: catalogue.Case
) -> None:
    assert tier.capability in SHARED_KIB
    for config in configs(case.family, case.dtype, tier.capability, (3, 7)):
        assert catalogue.programs(case, config)
        assert config.num_warps in {1, 2, 4, 8, 16}


def test_tolerances_are_far_below_what_a_wrong_result_gives() -> None:
    assert all(case.tolerance < 0.01 for case in catalogue.CASES.values())
