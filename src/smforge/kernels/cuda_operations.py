"""The CUDA C++ kernels, compiled by NVRTC and launched through the driver, beside cuBLAS."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import torch

from smforge.errors import ToolchainError
from smforge.kernels.cuda_driver import Module
from smforge.kernels.nvrtc import Compiled, Nvrtc, find_headers, find_library
from smforge.kernels.operation import Ceiling, Operation, Size, Tensors, Work, fill, normal
from smforge.kernels.tuning import Config

THREADS = 256
CHUNK = 65536  # elements one block of block_reduction.cu sums


class CudaOperation(Operation):
    """Base: compiles `cuda/<family>.cu` for the card once."""

    check_sizes: tuple[Size, ...] = ({"n": 3 * CHUNK + 5},)

    def configs(self) -> tuple[Config, ...]:
        return (Config(variant="nvrtc"),)

    @functools.cached_property
    def compiled(self) -> Compiled:
        """PTX, cubin and log; raises ToolchainError where NVRTC or its headers are missing."""
        source = Path(__file__).with_name("cuda") / f"{self.case.family}.cu"
        major, minor = self.capability
        nvrtc, headers = installed_nvrtc()
        return nvrtc.compile(source, major * 10 + minor, headers)

    @functools.cached_property
    def module(self) -> Module:
        """The loaded machine code."""
        return Module(self.compiled.cubin)

    def full_size(self, memory: int) -> Size:
        return {"n": fill(memory) // self.dtype.itemsize}

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {name: normal((size["n"],), self.dtype, generator) for name in ("x", "y")}

    def outputs(self, inputs: Tensors) -> Tensors:
        return {"out": torch.empty_like(inputs["x"])}


class VectorAdd(CudaOperation):
    """out = x + y."""

    def work(self, size: Size) -> Work:
        return Work(12 * size["n"], size["n"])

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        del config
        x, y, out = inputs["x"], inputs["y"], outputs["out"]
        self.module.launch("vector_add", _blocks(x.numel(), 4), THREADS, x, y, out,
                           ("i64", x.numel()))  # fmt: skip

    def reference(self, inputs: Tensors) -> Tensors:
        return {"out": inputs["x"].double() + inputs["y"].double()}


class Half(CudaOperation):
    """out = x * y + x in fp16."""

    def work(self, size: Size) -> Work:
        return Work(6 * size["n"], 2 * size["n"])

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        del config
        x, y, out = inputs["x"], inputs["y"], outputs["out"]
        self.module.launch("half_multiply_add", _blocks(x.numel(), 8), THREADS, x, y, out,
                           ("i64", x.numel()))  # fmt: skip

    def reference(self, inputs: Tensors) -> Tensors:
        x, y = inputs["x"].double(), inputs["y"].double()
        return {"out": x * y + x}


class BlockReduction(CudaOperation):
    """out[b] = sum of chunk b of x."""

    def work(self, size: Size) -> Work:
        return Work(4 * size["n"], size["n"])

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {"x": normal((size["n"],), self.dtype, generator)}

    def outputs(self, inputs: Tensors) -> Tensors:
        return {"out": inputs["x"].new_empty(-(-inputs["x"].numel() // CHUNK))}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        del config
        x, out = inputs["x"], outputs["out"]
        self.module.launch("block_reduction", (out.numel(), 1), THREADS, x, out,
                           ("i64", x.numel()))  # fmt: skip

    def reference(self, inputs: Tensors) -> Tensors:
        chunks = inputs["x"].split(CHUNK)
        return {"out": torch.stack([chunk.double().sum() for chunk in chunks])}


class Sgemm(CudaOperation):
    """c (M, N) = a (M, K) @ b (K, N) in fp32."""

    check_sizes = ({"M": 129, "N": 65, "K": 33},)

    def full_size(self, memory: int) -> Size:
        side = 4096 if memory >= 4 << 30 else 2048
        return {"M": side, "N": side, "K": side}

    def work(self, size: Size) -> Work:
        m, n, k = size["M"], size["N"], size["K"]
        return Work(4 * (m * k + k * n + m * n), 2 * m * n * k)

    def inputs(self, size: Size, generator: torch.Generator) -> Tensors:
        return {
            "a": normal((size["M"], size["K"]), self.dtype, generator),
            "b": normal((size["K"], size["N"]), self.dtype, generator),
        }

    def outputs(self, inputs: Tensors) -> Tensors:
        return {"c": inputs["a"].new_empty((len(inputs["a"]), inputs["b"].shape[1]))}

    def launch(self, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        del config
        a, b, c = inputs["a"], inputs["b"], outputs["c"]
        (m, k), n = a.shape, b.shape[1]
        grid = (-(-n // 64), -(-m // 64))
        numbers = (("i32", m), ("i32", n), ("i32", k))
        self.module.launch("sgemm", grid, THREADS, a, b, c, *numbers)

    def reference(self, inputs: Tensors) -> Tensors:
        return {"c": inputs["a"].double() @ inputs["b"].double()}

    def ceiling(self, inputs: Tensors) -> Ceiling | None:
        a, b = inputs["a"], inputs["b"]
        return Ceiling("cuBLAS", lambda: a @ b)


FAMILIES: dict[str, type[CudaOperation]] = {
    "vector_add": VectorAdd,
    "block_reduction": BlockReduction,
    "sgemm": Sgemm,
    "half": Half,
}


def _blocks(n: int, each: int) -> tuple[int, int]:
    """Blocks for n elements, `each` a thread; the kernels loop where the grid ends early."""
    return min(-(-n // (THREADS * each)), 1 << 20), 1


@functools.cache
def installed_nvrtc() -> tuple[Nvrtc, tuple[Path, ...]]:
    """The NVRTC of the running environment, and the folders of its headers."""
    library = find_library(_library_folders())
    if library is None:
        raise ToolchainError("no NVRTC library was found beside torch or in the environment")
    return Nvrtc(library), find_headers(_header_folders())


def _library_folders() -> list[Path]:
    prefix, site = Path(sys.prefix), Path(torch.__file__).parents[1]
    wheels = sorted((site / "nvidia").glob("*/lib")) + sorted((site / "nvidia").glob("*/bin"))
    own = [prefix / "lib", prefix / "Library" / "bin", Path(torch.__file__).parent / "lib"]
    homes = [Path(home) / name for home in _homes() for name in ("lib64", "bin")]
    return [*own, *wheels, *homes]


def _header_folders() -> list[Path]:
    prefix, site = Path(sys.prefix), Path(torch.__file__).parents[1]
    targets = [*sorted(prefix.glob("targets/*/include")), prefix / "Library/include"]
    homes = [Path(home) / "include" for home in _homes()]
    wheels = sorted((site / "nvidia").glob("*/include"))
    found = [*targets, prefix / "include", *wheels, *homes]
    return [*found, *(folder / "cccl" for folder in found)]


def _homes() -> list[str]:
    names = ("CUDA_HOME", "CUDA_PATH")
    return [*(os.environ[n] for n in names if os.environ.get(n)), "/usr/local/cuda"]
