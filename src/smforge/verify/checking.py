"""Is a kernel's result right: run on fresh random inputs over poisoned outputs, against float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from smforge.kernels.operation import Operation, Size, Tensors
from smforge.kernels.tuning import Config

_CHUNK = 1 << 26  # elements looked at together, so that a check needs little memory


@dataclass(frozen=True)
class Verdict:
    """`error` is the worst output's |got - expected| / |expected|; `problem` is "" when right."""

    error: float
    problem: str


def check(operation: Operation, size: Size, config: Config, generator: torch.Generator) -> Verdict:
    """Launch once at a size and compare every element with the float64 reference."""
    inputs = operation.inputs(size, generator)
    outputs = operation.outputs(inputs)
    poison(outputs)
    operation.launch(inputs, outputs, config)
    return judge(outputs, operation.reference(inputs), operation.case.tolerance)


def check_sample(
    operation: Operation, inputs: Tensors, config: Config, generator: torch.Generator
) -> Verdict:
    """As `check` for inputs of any size: every element written, a sample compared."""
    outputs = operation.outputs(inputs)
    poison(outputs)
    operation.launch(inputs, outputs, config)
    for name, tensor in outputs.items():
        problem = unwritten(name, tensor)
        if problem:
            return Verdict(math.inf, problem)
    got, expected = operation.sample(inputs, outputs, generator)
    return judge(got, expected, operation.case.tolerance)


def poison(outputs: Mapping[str, torch.Tensor]) -> None:
    """Fill with NaN: what a kernel does not write cannot be mistaken for a result."""
    for tensor in outputs.values():
        # 0x7f is NaN in both fp8 formats, 0x7f7f.. is a number in others: those take fill_.
        if tensor.element_size() == 1:
            tensor.view(torch.uint8).fill_(0x7F)
        else:
            tensor.fill_(math.nan)


def judge(got: Tensors, expected: Tensors, tolerance: float) -> Verdict:
    """Compare outputs by name; a tolerance of 0 asks for equality."""
    worst, problem = 0.0, ""
    for name, reference in expected.items():
        tensor = got[name]
        gap = unwritten(name, tensor)
        if gap:
            return Verdict(math.inf, gap)
        error = relative_error(tensor, reference)
        if not error <= tolerance and not problem:
            problem = f"{name} is off by {error:.2g} (relative Frobenius), allowed {tolerance:.2g}"
        worst = max(worst, error)
    return Verdict(worst, problem)


def unwritten(name: str, tensor: torch.Tensor) -> str:
    """A line that counts NaN and infinite elements; "" when there are none."""
    bad = sum(int((~torch.isfinite(_wide(part))).sum()) for part in _parts(tensor))
    if not bad:
        return ""
    return f"{name}: {bad} of {tensor.numel()} elements are not written, NaN or infinite"


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """|got - expected| / |expected|, Frobenius; NaN or a wrong shape is infinitely wrong."""
    if got.shape != expected.shape:
        return math.inf
    difference = norm = 0.0
    for one, other in zip(_parts(got), _parts(expected), strict=True):
        wide = _wide(other).double()
        difference += float(((_wide(one).double() - wide) ** 2).sum())
        norm += float((wide**2).sum())
    if not math.isfinite(difference):
        return math.inf
    if norm == 0.0:
        return 0.0 if difference == 0.0 else math.inf
    return math.sqrt(difference / norm)


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.reshape(-1).split(_CHUNK))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """fp8 as fp16 (torch has no isfinite for it), everything else as it is."""
    return tensor.half() if tensor.element_size() == 1 else tensor
