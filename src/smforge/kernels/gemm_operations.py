"""Matrix products in Triton, C = A @ B^T, beside cuBLAS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from smforge.kernels import triton_gemm
from smforge.kernels.operation import (
    Ceiling,
    Operation,
    Size,
    Tensors,
    Work,
    allow_descriptors,
    normal,
    random_rows,
)
from smforge.kernels.tuning import Config


class Gemm(Operation):
    """c (M, N) = a (M, K) @ b (N, K)^T, sums in fp32; fp8 products are stored as fp16."""

    check_sizes = ({"M": 129, "N": 77, "K": 51}, {"M": 272, "N": 400, "K": 336})

    def full_size(self, memory: int) -> Size:
        big = self.case.dtype != "fp32" and self.capability >= (8, 0) and memory >= 12 << 30
        side = 8192 if big else 4096
        return {"M": side, "N": side, "K": side}

    def work(self, size: Size) -> Work:
        m, n, k = size["M"], size["N"], size["K"]
        out = 2 if self.case.dtype == "fp8" else self.dtype.itemsize
        return Work((m * k + n * k) * self.dtype.itemsize + m * n * out, 2 * m * n * k)

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {
            "a": normal((size["M"], size["K"]), self.dtype, generator),
            "b": normal((size["N"], size["K"]), self.dtype, generator),
        }

    def outputs(self, inputs: Tensors) -> Tensors:
        shape = (len(inputs["a"]), len(inputs["b"]))
        dtype = torch.float16 if self.case.dtype == "fp8" else self.dtype
        return {"c": inputs["a"].new_empty(shape, dtype=dtype)}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        a, b, c = inputs["a"], inputs["b"], outputs["c"]
        if config.variant == "tma":
            _launch_tma(a, b, c, config)
            return
        (m, k), n = a.shape, len(b)
        constants = {**config.constants}
        if self.case.dtype == "fp32":
            constants["PRECISION"] = "ieee"
        triton_gemm.gemm[(_tiles(m, n, config),)](
            a, b, c, m, n, k, **constants,
            num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip

    def reference(self, inputs: Tensors) -> Tensors:
        return {"c": inputs["a"].double() @ inputs["b"].double().T}

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        rows = random_rows(len(inputs["a"]), 64, generator)
        a = inputs["a"].view(torch.uint8)[rows].view(self.dtype)  # fp8 tensors take no indices
        return {"c": outputs["c"][rows]}, self.reference({"a": a, "b": inputs["b"]})

    def ceiling(self, inputs: Tensors) -> Ceiling | None:
        a, b = inputs["a"], inputs["b"]
        if self.case.dtype == "fp8":
            return _fp8_ceiling(a, b)
        if self.case.dtype == "tf32":
            return Ceiling("cuBLAS", _with_tf32(lambda: a @ b.T))
        return Ceiling("cuBLAS", lambda: a @ b.T)


def _tiles(m: int, n: int, config: Config) -> int:
    bm, bn = int(config.constants["BM"]), int(config.constants["BN"])
    return -(-m // bm) * -(-n // bn)


def _launch_tma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, config: Config) -> None:
    (m, k), n = a.shape, len(b)
    processors = torch.cuda.get_device_properties(a.device).multi_processor_count
    programs = min(processors * config.programs_per_sm, _tiles(m, n, config))
    allow_descriptors()
    triton_gemm.gemm_tma[(programs,)](
        a, b, c, m, n, k, **config.constants, PROGRAMS=programs,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip


def _fp8_ceiling(a: torch.Tensor, b: torch.Tensor) -> Ceiling | None:
    if not hasattr(torch, "_scaled_mm"):
        return None
    one = torch.ones((), device=a.device)

    def call() -> torch.Tensor:
        return torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return Ceiling("cuBLAS", call)


@contextmanager
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _with_tf32(call: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    def wrapped() -> torch.Tensor:
        with _tf32():
            return call()

    return wrapped
