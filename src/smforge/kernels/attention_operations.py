"""Causal attention forward and backward in Triton, beside torch's scaled_dot_product_attention."""

from __future__ import annotations

from math import e as euler
from math import log2, sqrt

import torch
from torch.nn import functional

from smforge.kernels import triton_attention
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


class Attention(Operation):
    """out = softmax(causal(q @ k^T / sqrt(D))) @ v, and the base-2 log of the sums."""

    check_sizes: tuple[Size, ...] = (
        {"batch": 1, "heads": 2, "T": 131},
        {"batch": 2, "heads": 1, "T": 512},  # for tensor descriptors
        {"batch": 2, "heads": 1, "T": 272},
    )

    @property
    def depth(self) -> int:
        """Size of a head: what the configurations are compiled for."""
        return int(self.configs()[0].constants["D"])

    def accepts(self, size: Size, config: Config) -> bool:
        if config.variant == "pointers":
            return True
        blocks = (int(config.constants.get(name, 1)) for name in ("BM", "BN", "BLOCK"))
        return size["T"] % max(blocks) == 0

    def full_size(self, memory: int) -> Size:
        if memory >= 40 << 30 and self.capability >= (8, 0):
            return {"batch": 4, "heads": 16, "T": 8192}
        return {"batch": 2, "heads": 16, "T": 4096}

    def work(self, size: Size) -> Work:
        pairs = size["T"] * size["T"] // 2  # causal: half of the scores
        tokens = size["batch"] * size["heads"] * size["T"]
        flops = 4 * size["batch"] * size["heads"] * pairs * self.depth
        return Work(4 * tokens * self.depth * self.dtype.itemsize, flops)

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        shape = (size["batch"], size["heads"], size["T"], self.depth)
        return {name: normal(shape, self.dtype, generator) for name in "qkv"}

    def outputs(self, inputs: Tensors) -> Tensors:
        q = inputs["q"]
        return {
            "out": torch.empty_like(q),
            "lse": q.new_empty(q.shape[:-1], dtype=torch.float32),
        }

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        q = inputs["q"]
        batch, heads, length, _ = q.shape
        tensors = [inputs["q"], inputs["k"], inputs["v"], outputs["out"]]
        if config.variant == "gluon":
            _launch_gluon([*tensors, outputs["lse"]], config)
            return
        grid = (-(-length // int(config.constants["BM"])), batch * heads)
        kernel = triton_attention.attention
        if config.variant == "tma":
            kernel = triton_attention.attention_tma
            allow_descriptors()
        kernel[grid](
            *tensors, outputs["lse"], length, score_scale(q), **config.constants,
            num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip

    def reference(self, inputs: Tensors) -> Tensors:
        q, k, v = (inputs[name].double() for name in "qkv")
        return _attend(q, k, v, torch.arange(q.shape[-2], device=q.device))

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        length = inputs["q"].shape[-2]
        rows = random_rows(length, 64, generator)
        parts = []
        for q, k, v in zip(*(inputs[n].flatten(0, 1).double() for n in "qkv"), strict=True):
            parts.append(_attend(q[rows], k, v, rows))
        expected = {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
        got = {name: outputs[name].flatten(0, 1)[:, rows] for name in expected}
        return got, expected

    def ceiling(self, inputs: Tensors) -> Ceiling | None:
        q, k, v = (inputs[name] for name in "qkv")
        attend = functional.scaled_dot_product_attention
        return Ceiling("SDPA", lambda: attend(q, k, v, is_causal=True))


class AttentionBackward(Attention):
    """Gradients of q, k and v for a given gradient of the output."""

    check_sizes = ({"batch": 1, "heads": 2, "T": 131}, {"batch": 2, "heads": 1, "T": 272})

    def accepts(self, size: Size, config: Config) -> bool:
        del size, config
        return True

    def work(self, size: Size) -> Work:
        forward = super().work(size)
        return Work(2 * forward.bytes, forward.flops * 5 // 2)  # five products, not two

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        inputs = super().inputs(size, generator)
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        # The forward's results in fp32, one head at a time: what the backward is handed.
        rows = torch.arange(q.shape[-2], device=q.device)
        out, lse = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
        for batch in range(q.shape[0]):
            for head in range(q.shape[1]):
                at = (batch, head)
                made = _attend(q[at].float(), k[at].float(), v[at].float(), rows)
                out[at], lse[at] = made["out"].to(q.dtype), made["lse"]
        grad = normal(tuple(q.shape), self.dtype, generator)
        return {**inputs, "grad": grad, "out": out, "lse": lse}

    def outputs(self, inputs: Tensors) -> Tensors:
        return {f"grad_{name}": torch.empty_like(inputs[name]) for name in "qkv"}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        q, k, v, grad, lse = (inputs[name] for name in ("q", "k", "v", "grad", "lse"))
        batch, heads, length, depth = q.shape
        bm, bn = int(config.constants["BM"]), int(config.constants["BN"])
        delta = torch.empty_like(lse)
        triton_attention.attention_delta[(-(-length // 128), batch * heads)](
            inputs["out"], grad, delta, length, BM=128, D=depth
        )
        options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
        numbers = (length, score_scale(q), 1 / sqrt(depth))
        triton_attention.attention_backward_kv[(-(-length // bn), batch * heads)](
            q, k, v, grad, lse, delta, outputs["grad_k"], outputs["grad_v"], *numbers,
            **config.constants, **options,
        )  # fmt: skip
        triton_attention.attention_backward_q[(-(-length // bm), batch * heads)](
            q, k, v, grad, lse, delta, outputs["grad_q"], *numbers, **config.constants, **options
        )

    def reference(self, inputs: Tensors) -> Tensors:
        q, k, v, grad = (inputs[name].double() for name in ("q", "k", "v", "grad"))
        scale = 1 / sqrt(q.shape[-1])
        weight = _weights(q, k, torch.arange(q.shape[-2], device=q.device))[0]
        d_weight = grad @ v.transpose(-1, -2)
        slope = weight * (d_weight - (weight * d_weight).sum(-1, keepdim=True)) * scale
        return {
            "grad_q": slope @ k,
            "grad_k": slope.transpose(-1, -2) @ q,
            "grad_v": weight.transpose(-1, -2) @ grad,
        }

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        """One random head, whole: the gradients of keys need every query."""
        heads = inputs["q"].shape[0] * inputs["q"].shape[1]
        chosen = int(torch.randint(heads, (1,), generator=generator, device=generator.device))
        head = {name: tensor.flatten(0, 1)[chosen] for name, tensor in inputs.items()}
        got = {name: tensor.flatten(0, 1)[chosen] for name, tensor in outputs.items()}
        return got, self.reference(head)

    def ceiling(self, inputs: Tensors) -> Ceiling | None:
        leaves = [inputs[name].detach().requires_grad_() for name in "qkv"]
        q, k, v = leaves
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        grad = inputs["grad"]
        return Ceiling(
            "SDPA backward", lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)
        )


def _launch_gluon(tensors: list[torch.Tensor], config: Config) -> None:
    # Imported here: an older Triton has no Gluon.
    from smforge.kernels.gluon_attention import attention

    allow_descriptors()
    q = tensors[0]
    heads, length = q.shape[0] * q.shape[1], q.shape[2]
    tiles = heads * length // int(config.constants["BLOCK"])
    processors = torch.cuda.get_device_properties(q.device).multi_processor_count
    attention[(min(processors, tiles),)](
        *tensors, length, heads, score_scale(q), **config.constants, num_warps=config.num_warps
    )


def score_scale(q: torch.Tensor) -> float:
    """1 / sqrt(D) in base 2: the kernels use exp2."""
    return log2(euler) / sqrt(q.shape[-1])


def _weights(
    q: torch.Tensor, k: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention weights of queries that stand at `rows`, and the natural log of the sums."""
    score = q @ k.transpose(-1, -2) / sqrt(q.shape[-1])
    above = torch.arange(k.shape[-2], device=k.device)[None, :] > rows[:, None]
    score = score.masked_fill(above, float("-inf"))
    total = score.logsumexp(-1)
    return (score - total[..., None]).exp(), total


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rows: torch.Tensor) -> Tensors:
    weight, total = _weights(q, k, rows)
    return {"out": weight @ v, "lse": total * log2(euler)}
