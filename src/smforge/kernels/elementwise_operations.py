"""Vector add and casts to fp8, in Triton."""

from __future__ import annotations

import torch

from smforge.kernels import triton_elementwise
from smforge.kernels.operation import Operation, Size, Tensors, Work, fill, normal
from smforge.kernels.tuning import Config


def _grid(n: int, config: Config) -> tuple[int]:
    block = int(config.constants["BLOCK"])
    return ((n + block - 1) // block,)


class VectorAdd(Operation):
    """out = x + y."""

    check_sizes = ({"n": 98765}, {"n": 98768})

    def full_size(self, memory: int) -> Size:
        return {"n": fill(memory) // 4}

    def work(self, size: Size) -> Work:
        return Work(3 * 4 * size["n"], size["n"])

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {name: normal((size["n"],), self.dtype, generator) for name in ("x", "y")}

    def outputs(self, inputs: Tensors) -> Tensors:
        return {"out": torch.empty_like(inputs["x"])}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        x, y, out = inputs["x"], inputs["y"], outputs["out"]
        kernel = triton_elementwise.vector_add[_grid(x.numel(), config)]
        kernel(x, y, out, x.numel(), **config.constants, num_warps=config.num_warps)

    def reference(self, inputs: Tensors) -> Tensors:
        return {"out": inputs["x"].double() + inputs["y"].double()}


class Cast(Operation):
    """out = x, fp16 to fp8: rounded to nearest even as torch does."""

    check_sizes = ({"n": 98765}, {"n": 98768})

    def full_size(self, memory: int) -> Size:
        return {"n": fill(memory) // 2}

    def work(self, size: Size) -> Work:
        return Work(3 * size["n"], size["n"])

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {"x": normal((size["n"],), torch.float16, generator)}

    def outputs(self, inputs: Tensors) -> Tensors:
        return {"out": torch.empty_like(inputs["x"], dtype=self.dtype)}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        x, out = inputs["x"], outputs["out"]
        kernel = triton_elementwise.cast[_grid(x.numel(), config)]
        kernel(x, out, x.numel(), **config.constants, num_warps=config.num_warps)

    def reference(self, inputs: Tensors) -> Tensors:
        # Every fp16 is a float64; the rounding to fp8 is torch's, and must agree bit for bit.
        return {"out": inputs["x"].to(self.dtype).double()}

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        del generator
        return {"out": outputs["out"].half()}, {"out": inputs["x"].to(self.dtype).half()}
