"""What every reference kernel can do: make inputs, launch, give a float64 reference and its cost.

Needs torch. The checks and timings of `smforge.verify` go through this interface alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from smforge.kernels.catalogue import Case
from smforge.kernels.tuning import Capability, Config, configs

Tensors = dict[str, torch.Tensor]
Size = dict[str, int]

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": getattr(torch, "float8_e4m3fn", torch.float16),
    "fp8e5": getattr(torch, "float8_e5m2", torch.float16),
}


@dataclass(frozen=True)
class Work:
    """The fewest bytes a call must move and the operations it must do."""

    bytes: int
    flops: int

    @property
    def unit(self) -> str:
        """What the result is told in: arithmetic once a byte brings 32 operations or more."""
        return "TFLOP/s" if self.flops >= 32 * self.bytes else "GB/s"

    def rate(self, milliseconds: float) -> float:
        """GB/s or TFLOP/s of one call that took so long."""
        if self.unit == "TFLOP/s":
            return self.flops / milliseconds / 1e9
        return self.bytes / milliseconds / 1e6


@dataclass(frozen=True)
class Ceiling:
    """A library's call for the same result, to time beside the kernel."""

    name: str
    call: Callable[[], Any]


class Operation:
    """Base of the families.

    `check_sizes` hold shapes that fill no block evenly. The last that a configuration accepts is
    what a GPU is checked with: a multiple of 16, so that it compiles as the full size does.
    """

    check_sizes: tuple[Size, ...] = ()

    def __init__(self, case: Case, capability: Capability, triton: tuple[int, int]) -> None:
        self.case = case
        self.capability = capability
        self.triton = triton
        self.dtype = DTYPES[case.dtype]

    def configs(self) -> tuple[Config, ...]:
        """The launch configurations to try; the first is the default."""
        return configs(self.case.family, self.case.dtype, self.capability, self.triton)

    def accepts(self, size: Size, config: Config) -> bool:
        """Whether the configuration can run this size."""
        del size, config
        return True

    def full_size(self, memory: int) -> Size:
        """A size that fills a card with so many bytes of memory."""
        raise NotImplementedError

    def work(self, size: Size) -> Work:
        """Cost of one call."""
        raise NotImplementedError

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        """Fresh random inputs on the generator's device."""
        raise NotImplementedError

    def outputs(self, inputs: Tensors) -> Tensors:
        """Output tensors, not written."""
        raise NotImplementedError

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        """Compute the outputs."""
        raise NotImplementedError

    def reference(self, inputs: Tensors) -> Tensors:
        """The outputs in float64."""
        raise NotImplementedError

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        """(got, expected) where the whole reference would not fit; parts from everywhere."""
        del generator
        return outputs, self.reference(inputs)

    def ceiling(self, inputs: Tensors) -> Ceiling | None:
        """The library's call; None where the ceiling is the device copy."""
        del inputs
        return None


def normal(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Standard normal numbers, rounded to dtype."""
    values = torch.randn(shape, generator=generator, device=generator.device)
    return values.to(dtype)


def random_rows(rows: int, each: int, generator: torch.Generator) -> torch.Tensor:
    """One random row of every `each` rows, so that no block of rows escapes a check."""
    start = torch.arange(0, rows, each, device=generator.device)
    offset = torch.randint(0, each, start.shape, generator=generator, device=generator.device)
    return torch.clamp(start + offset, max=rows - 1)


def fill(memory: int) -> int:
    """Bytes of one tensor that keeps a card busy: 1 GiB, less on a small card."""
    return min(1 << 30, memory // 16)


def allow_descriptors() -> None:
    """Let kernels make tensor descriptors: Triton asks for the memory that holds them."""
    import triton

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        del alignment, stream
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
