"""What the check of a kernel catches: each test injects one fault."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from smforge.kernels.catalogue import Case  # noqa: E402
from smforge.kernels.operation import Operation, Size, Tensors, normal  # noqa: E402
from smforge.kernels.tuning import Config  # noqa: E402
from smforge.verify.checking import check, check_sample, poison, relative_error  # noqa: E402

SIZE = {"n": 1000}


class Double(Operation):
    """out = 2 x, right unless a fault is asked for."""

    def __init__(self, fault: str = "", tolerance: float = 1e-6) -> None:
        super().__init__(Case("double", "test", "double", "fp32", tolerance), (8, 0), (3, 7))
        self.fault = fault

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {"x": normal((size["n"],), self.dtype, generator)}

    def outputs(self, inputs: Tensors) -> Tensors:
        return {"out": torch.empty_like(inputs["x"])}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        del config
        result = 2 * inputs["x"]
        if self.fault == "wrong index":
            result = result.roll(1)
        if self.fault == "nan":
            result[7] = math.nan
        if self.fault == "unwritten":
            outputs["out"][:-1] = result[:-1]
            return
        if self.fault == "rounded":
            result = result.half().float()
        outputs["out"].copy_(result)

    def reference(self, inputs: Tensors) -> Tensors:
        return {"out": 2 * inputs["x"].double()}


def verdict(operation: Operation) -> str:
    generator = torch.Generator().manual_seed(1)
    return check(operation, SIZE, Config(), generator).problem


def test_a_right_kernel_passes() -> None:
    assert verdict(Double()) == ""


@pytest.mark.parametrize("fault", ["wrong index", "rounded"])
def test_a_broken_kernel_is_off(fault: str) -> None:
    assert "out is off by" in verdict(Double(fault))


def test_an_unwritten_element_is_counted() -> None:
    assert verdict(Double("unwritten")) == (
        "out: 1 of 1000 elements are not written, NaN or infinite"
    )


def test_one_nan_fails() -> None:
    assert "1 of 1000 elements" in verdict(Double("nan"))


def test_a_tolerance_too_tight_fails_a_right_kernel() -> None:
    assert "allowed 1e-09" in verdict(Double("rounded", tolerance=1e-9))


def test_a_tolerance_too_wide_lets_a_rounding_pass() -> None:
    # Why tolerances come from the dtype: a guess of 1e-2 would not see fp16 instead of fp32.
    assert verdict(Double("rounded", tolerance=1e-2)) == ""


@pytest.mark.parametrize("fault", ["unwritten", "nan"])
def test_a_sampled_check_sees_every_element(fault: str) -> None:
    class Sampled(Double):
        def sample(
            self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
        ) -> tuple[Tensors, Tensors]:
            del generator
            return {"out": outputs["out"][:1]}, {"out": 2 * inputs["x"][:1].double()}

    operation, generator = Sampled(fault), torch.Generator().manual_seed(1)
    inputs = operation.inputs(SIZE, generator)
    assert "1 of 1000" in check_sample(operation, inputs, Config(), generator).problem


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32"])
def test_poison_is_nan_in_every_dtype(name: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this torch has no {name}")
    tensor = torch.zeros(4).to(dtype)
    poison({"out": tensor})
    assert tensor.float().isnan().all()


def test_a_wrong_shape_is_infinitely_wrong() -> None:
    assert relative_error(torch.ones(3), torch.ones(4).double()) == math.inf
