"""Softmax, layer norm and its backward over the rows of a matrix, in Triton."""

from __future__ import annotations

import torch
from torch.nn import functional

from smforge.kernels import triton_rows
from smforge.kernels.catalogue import SUM_ROWS
from smforge.kernels.operation import Operation, Size, Tensors, Work, fill, normal, random_rows
from smforge.kernels.tuning import Config

EPSILON = 1e-5
COLUMNS = 4096  # the width of a 7B model; the BLOCK of the configurations holds one row


class Rows(Operation):
    """What the families over rows share: sizes, and samples of one row in 256."""

    check_sizes = ({"rows": 3, "columns": 3100}, {"rows": 70, "columns": 3104})

    def full_size(self, memory: int) -> Size:
        return {"rows": fill(memory) // (COLUMNS * int(self.dtype.itemsize)), "columns": COLUMNS}

    def _matrix(self, size: Size, generator: torch.Generator) -> torch.Tensor:
        return normal((size["rows"], size["columns"]), self.dtype, generator)

    def _traffic(self, size: Size, matrices: int) -> int:
        return matrices * size["rows"] * size["columns"] * int(self.dtype.itemsize)


class Softmax(Rows):
    """out[r] = softmax(x[r])."""

    def work(self, size: Size) -> Work:
        return Work(self._traffic(size, 2), 5 * size["rows"] * size["columns"])

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {"x": self._matrix(size, generator)}

    def outputs(self, inputs: Tensors) -> Tensors:
        return {"out": torch.empty_like(inputs["x"])}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        rows, columns = inputs["x"].shape
        triton_rows.softmax[(rows,)](
            inputs["x"], outputs["out"], columns, **config.constants,
            num_warps=config.num_warps,
        )  # fmt: skip

    def reference(self, inputs: Tensors) -> Tensors:
        return {"out": inputs["x"].double().softmax(1)}

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        rows = random_rows(len(inputs["x"]), 256, generator)
        return {"out": outputs["out"][rows]}, self.reference({"x": inputs["x"][rows]})


class LayerNorm(Rows):
    """out[r] = (x[r] - mean) / sqrt(variance + epsilon) * weight + bias."""

    def work(self, size: Size) -> Work:
        return Work(self._traffic(size, 2), 8 * size["rows"] * size["columns"])

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        # Rows far from mean 0 and width 1: a kernel that forgets either is caught.
        x = (self._matrix(size, generator) * 2 + 1).to(self.dtype)
        wide = (size["columns"],)
        weight, bias = (normal(wide, self.dtype, generator) for _ in range(2))
        return {"x": x, "weight": weight, "bias": bias}

    def outputs(self, inputs: Tensors) -> Tensors:
        x = inputs["x"]
        means = {name: x.new_empty(len(x), dtype=torch.float32) for name in ("mean", "rstd")}
        return {"out": torch.empty_like(x), **means}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        rows, columns = inputs["x"].shape
        triton_rows.layer_norm[(rows,)](
            inputs["x"], inputs["weight"], inputs["bias"], outputs["out"], outputs["mean"],
            outputs["rstd"], columns, EPSILON, **config.constants,
            num_warps=config.num_warps,
        )  # fmt: skip

    def reference(self, inputs: Tensors) -> Tensors:
        x = inputs["x"].double()
        weight, bias = inputs["weight"].double(), inputs["bias"].double()
        return {
            "out": functional.layer_norm(x, x.shape[1:], weight, bias, EPSILON),
            "mean": x.mean(1),
            "rstd": (x.var(1, correction=0) + EPSILON).rsqrt(),
        }

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        rows = random_rows(len(inputs["x"]), 256, generator)
        got = {name: tensor[rows] for name, tensor in outputs.items()}
        return got, self.reference({**inputs, "x": inputs["x"][rows]})


class LayerNormBackward(Rows):
    """Gradients of the input, weight and bias of layer norm."""

    def work(self, size: Size) -> Work:
        return Work(self._traffic(size, 3), 14 * size["rows"] * size["columns"])

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        x = (self._matrix(size, generator) * 2 + 1).to(self.dtype)
        weight = normal((size["columns"],), self.dtype, generator)
        wide = x.float()
        rstd = (wide.var(1, correction=0) + EPSILON).rsqrt()
        return {
            "grad": self._matrix(size, generator), "x": x, "weight": weight,
            "mean": wide.mean(1), "rstd": rstd,
        }  # fmt: skip

    def outputs(self, inputs: Tensors) -> Tensors:
        weight = inputs["weight"]
        return {
            "grad_x": torch.empty_like(inputs["x"]),
            "grad_weight": torch.empty_like(weight),
            "grad_bias": torch.empty_like(weight),
        }

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        x = inputs["x"]
        rows, columns = x.shape
        programs = min(rows, _multiprocessors(x.device) * config.programs_per_sm)
        partial = x.new_empty((2, programs, columns), dtype=torch.float32)
        triton_rows.layer_norm_backward[(programs,)](
            inputs["grad"], x, inputs["weight"], inputs["mean"], inputs["rstd"],
            outputs["grad_x"], partial[0], partial[1], rows, columns, **config.constants,
            num_warps=config.num_warps,
        )  # fmt: skip
        grid = ((columns + SUM_ROWS["COLUMNS"] - 1) // SUM_ROWS["COLUMNS"],)
        for share, name in zip(partial, ("grad_weight", "grad_bias"), strict=True):
            triton_rows.sum_rows[grid](share, outputs[name], programs, columns, **SUM_ROWS)

    def reference(self, inputs: Tensors) -> Tensors:
        grad, weight = inputs["grad"].double(), inputs["weight"].double()
        normalised = _normalised(inputs)
        return {
            "grad_x": _grad_x(grad, weight, normalised, inputs["rstd"].double()),
            "grad_weight": (grad * normalised).sum(0),
            "grad_bias": grad.sum(0),
        }

    def sample(
        self, inputs: Tensors, outputs: Tensors, generator: torch.Generator
    ) -> tuple[Tensors, Tensors]:
        rows = random_rows(len(inputs["x"]), 256, generator)
        few = {k: v if k == "weight" else v[rows] for k, v in inputs.items()}
        got = {**outputs, "grad_x": outputs["grad_x"][rows]}
        return got, {**self._column_sums(inputs), "grad_x": self.reference(few)["grad_x"]}

    def _column_sums(self, inputs: Tensors) -> Tensors:
        """The weight's and bias's gradients over every row, 4096 rows at a time."""
        sums = [torch.zeros_like(inputs["weight"], dtype=torch.float64) for _ in range(2)]
        for start in range(0, len(inputs["x"]), 4096):
            part = {k: v if k == "weight" else v[start : start + 4096] for k, v in inputs.items()}
            grad = part["grad"].double()
            sums[0] += (grad * _normalised(part)).sum(0)
            sums[1] += grad.sum(0)
        return {"grad_weight": sums[0], "grad_bias": sums[1]}


def _normalised(inputs: Tensors) -> torch.Tensor:
    centred = inputs["x"].double() - inputs["mean"].double()[:, None]
    return centred * inputs["rstd"].double()[:, None]


def _grad_x(
    grad: torch.Tensor, weight: torch.Tensor, normalised: torch.Tensor, rstd: torch.Tensor
) -> torch.Tensor:
    slope = grad * weight
    along = (normalised * slope).mean(1, keepdim=True)
    return (slope - normalised * along - slope.mean(1, keepdim=True)) * rstd[:, None]


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4  # the interpreter: a few programs, so that the loop over rows is taken
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
