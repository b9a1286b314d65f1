"""torch.compile: a pointwise chain with a reduction, and a transformer block with its backward.

The same functions run on CUDA and, through generated C++, on the CPU; float64 runs eager.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from smforge.kernels.operation import Ceiling, Operation, Size, Tensors, Work, fill, normal
from smforge.kernels.tuning import Config

HEADS = 8
Result = tuple[torch.Tensor, ...]


class CompileOperation(Operation):
    """Base: one compiled function for all sizes, which each compile on first use."""

    function: Callable[..., Result]
    names: tuple[str, ...] = ()

    def configs(self) -> tuple[Config, ...]:
        return (Config(variant="inductor"),)

    @functools.cached_property
    def compiled(self) -> Any:
        """The function through inductor."""
        return torch.compile(type(self).function, dynamic=False)

    def outputs(self, inputs: Tensors) -> Tensors:
        shapes = self.shapes(inputs)
        return {name: torch.empty_like(shapes[name]) for name in self.names}

    def shapes(self, inputs: Tensors) -> Tensors:
        """For each output a tensor of its shape."""
        raise NotImplementedError

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        del config
        results = self.compiled(**inputs)
        for name, result in zip(self.names, results, strict=True):
            outputs[name].copy_(result)

    def reference(self, inputs: Tensors) -> Tensors:
        wide = {name: tensor.double() for name, tensor in inputs.items()}
        return dict(zip(self.names, type(self).function(**wide), strict=True))

    def ceiling(self, inputs: Tensors) -> Ceiling | None:
        return Ceiling("eager", lambda: type(self).function(**inputs))


def pointwise(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> Result:
    """Row sums of gelu(x * scale + shift) ** 2: one pass over x when fused."""
    return ((functional.gelu(x * scale + shift) ** 2).sum(1),)


def block(x: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, up: torch.Tensor,
          down: torch.Tensor) -> Result:  # fmt: skip
    """A pre-norm transformer block, its input's and weights' gradients for a loss of squares."""
    leaves = [t.detach().requires_grad_() for t in (x, qkv, out, up, down)]
    h, w_qkv, w_out, w_up, w_down = leaves
    batch, length, width = h.shape
    normed = functional.layer_norm(h, (width,))
    split = (normed @ w_qkv).view(batch, length, 3, HEADS, width // HEADS)
    q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = h + mixed.transpose(1, 2).reshape(batch, length, width) @ w_out
    result = y + functional.gelu(functional.layer_norm(y, (width,)) @ w_up) @ w_down
    grads = torch.autograd.grad(result.square().mean(), leaves)
    return (result.detach(), *grads)


class Pointwise(CompileOperation):
    """Fused pointwise and reduction."""

    function = staticmethod(pointwise)
    names = ("out",)
    check_sizes = ({"rows": 33, "columns": 1000},)

    def full_size(self, memory: int) -> Size:
        return {"rows": fill(memory) // (4096 * 4), "columns": 4096}

    def work(self, size: Size) -> Work:
        return Work(4 * size["rows"] * size["columns"], 12 * size["rows"] * size["columns"])

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        wide = (size["columns"],)
        x = normal((size["rows"], size["columns"]), self.dtype, generator)
        scale, shift = (normal(wide, self.dtype, generator) for _ in range(2))
        return {"x": x, "scale": scale, "shift": shift}

    def shapes(self, inputs: Tensors) -> Tensors:
        return {"out": inputs["x"][:, 0].contiguous()}

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        del generator
        parts = inputs["x"].split(4096)
        sums = [self.reference({**inputs, "x": part})["out"] for part in parts]
        return outputs, {"out": torch.cat(sums)}

    def ceiling(self, inputs: Tensors) -> Ceiling | None:
        del inputs
        return None  # the device copy


class Block(CompileOperation):
    """Forward and backward of a transformer block."""

    function = staticmethod(block)
    names = ("out", "grad_x", "grad_qkv", "grad_out", "grad_up", "grad_down")
    check_sizes = ({"batch": 2, "T": 64, "width": 128},)

    def full_size(self, memory: int) -> Size:
        return {"batch": 8 if memory >= 8 << 30 else 2, "T": 1024, "width": 1024}

    def work(self, size: Size) -> Work:
        tokens, width = size["batch"] * size["T"], size["width"]
        products = 2 * tokens * 12 * width * width
        attention = 2 * size["batch"] * size["T"] ** 2 * width
        return Work(24 * tokens * width * 4, 3 * (products + attention))

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        width = size["width"]
        shapes = {"qkv": (width, 3 * width), "out": (width, width),
                  "up": (width, 4 * width), "down": (4 * width, width)}  # fmt: skip
        x = normal((size["batch"], size["T"], width), self.dtype, generator)
        weights = {
            name: normal(shape, self.dtype, generator) / shape[0] ** 0.5
            for name, shape in shapes.items()
        }
        return {"x": x, **weights}

    def shapes(self, inputs: Tensors) -> Tensors:
        like = [inputs[name] for name in ("x", "x", "qkv", "out", "up", "down")]
        return dict(zip(self.names, like, strict=True))


FAMILIES: dict[str, type[CompileOperation]] = {"pointwise": Pointwise, "block": Block}
