"""The reference kernels as data: what each is called, its dtype, tiers, tolerance and programs.

Standard library alone: the matrix without a GPU reads this in a Python that has no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from smforge.kernels.tuning import Capability, Config

# Half the distance from 1.0 to the next number: the largest relative error of one rounding.
UNIT_ROUNDOFF = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8 / 2}


@dataclass(frozen=True)
class Program:
    """One Triton kernel to compile: its module, function, argument types and configuration."""

    module: str
    function: str
    types: tuple[str, ...]
    constants: Mapping[str, int | bool | str]
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class Case:
    """One reference kernel in one dtype.

    `tolerance` bounds |got - reference| / |reference| in the Frobenius norm, the reference being
    computed in float64 from the same rounded inputs. 0 means equal bit for bit.
    """

    name: str
    language: str  # "triton", "cuda" or "compile"
    family: str
    dtype: str
    tolerance: float
    lowest: Capability = (7, 0)
    tensor_cores: bool = False


def _tolerance(dtype: str, roundings: float = 4.0) -> float:
    """So many roundings of dtype, each at its largest: far below what a wrong index gives."""
    return roundings * UNIT_ROUNDOFF[dtype]


# Sums of n products in fp32 err as a random walk of n roundings.
_SUM_FP32 = _tolerance("fp32", 2 * sqrt(8192))
# Hopper adds fp8 products with 13 fractional bits before they reach the fp32 sum (DeepSeek-V3
# technical report, 3.3.2, measured there as "around 14 bits").
_FP8 = 2.0**-7

TRITON = (
    Case("vector-add", "triton", "vector-add", "fp32", _tolerance("fp32")),
    Case("softmax-fp16", "triton", "softmax", "fp16", _tolerance("fp16")),
    Case("softmax-bf16", "triton", "softmax", "bf16", _tolerance("bf16"), (8, 0)),
    Case("layer-norm-fp16", "triton", "layer-norm", "fp16", _tolerance("fp16")),
    Case("layer-norm-bf16", "triton", "layer-norm", "bf16", _tolerance("bf16"), (8, 0)),
    Case("layer-norm-backward-fp16", "triton", "layer-norm-backward", "fp16",
         _tolerance("fp16")),
    Case("layer-norm-backward-bf16", "triton", "layer-norm-backward", "bf16",
         _tolerance("bf16"), (8, 0)),
    Case("gemm-fp32", "triton", "gemm", "fp32", _SUM_FP32),
    Case("gemm-tf32", "triton", "gemm", "tf32", _tolerance("tf32"), (8, 0), True),
    Case("gemm-fp16", "triton", "gemm", "fp16", _tolerance("fp16"), (7, 0), True),
    Case("gemm-bf16", "triton", "gemm", "bf16", _tolerance("bf16"), (8, 0), True),
    Case("gemm-fp8", "triton", "gemm", "fp8", _FP8, (8, 9), True),
    Case("attention-fp16", "triton", "attention", "fp16", _tolerance("fp16"), (7, 0), True),
    Case("attention-bf16", "triton", "attention", "bf16", _tolerance("bf16"), (8, 0), True),
    Case("attention-backward-fp16", "triton", "attention-backward", "fp16",
         _tolerance("fp16"), (7, 0), True),
    Case("attention-backward-bf16", "triton", "attention-backward", "bf16",
         _tolerance("bf16"), (8, 0), True),
    Case("cast-e4m3", "triton", "cast", "fp8", 0.0, (8, 9)),
    Case("cast-e5m2", "triton", "cast", "fp8e5", 0.0),
)  # fmt: skip

CUDA = (
    Case("cuda-vector-add", "cuda", "vector_add", "fp32", _tolerance("fp32"), (3, 5)),
    Case("cuda-block-reduction", "cuda", "block_reduction", "fp32", _SUM_FP32, (3, 5)),
    Case("cuda-sgemm", "cuda", "sgemm", "fp32", _SUM_FP32, (3, 5)),
    Case("cuda-half", "cuda", "half", "fp16", _tolerance("fp16"), (3, 5)),
)

COMPILE = (
    Case("compile-pointwise", "compile", "pointwise", "fp32", _SUM_FP32, (0, 0)),
    Case("compile-block", "compile", "block", "fp32", _SUM_FP32, (0, 0)),
)

CASES = {case.name: case for case in (*TRITON, *CUDA, *COMPILE)}

# What a tensor-core kernel's PTX must hold. sm_70 to sm_89 and sm_120 share the warp-wide one.
_WARP, _HOPPER, _BLACKWELL = "mma.sync", "wgmma.mma_async", "tcgen05.mma"


def tensor_core_instruction(capability: Capability) -> str:
    """The PTX instruction that multiplies matrices on this architecture's tensor cores."""
    return {9: _HOPPER, 10: _BLACKWELL}.get(capability[0], _WARP)


_ELEMENT = {"fp8": "fp8e4nv", "fp8e5": "fp8e5", "tf32": "fp32"}


def programs(case: Case, config: Config) -> tuple[Program, ...]:
    """The Triton kernels one call of the case launches, with the types it passes."""
    element = _ELEMENT.get(case.dtype, case.dtype)
    pointer = f"*{element}"
    match case.family:
        case "vector-add":
            return (_program("elementwise", "vector_add", (pointer,) * 3 + ("i64",), config),)
        case "cast":
            return (_program("elementwise", "cast", ("*fp16", pointer, "i64"), config),)
        case "softmax":
            return (_program("rows", "softmax", (pointer, pointer, "i32"), config),)
        case "layer-norm":
            types = (pointer,) * 4 + ("*fp32",) * 2 + ("i32", "fp32")
            return (_program("rows", "layer_norm", types, config),)
        case "layer-norm-backward":
            return _layer_norm_backward(pointer, config)
        case "gemm":
            return (_gemm(case, element, config),)
        case "attention":
            return (_attention(element, config),)
        case "attention-backward":
            return _attention_backward(pointer, config)
    raise KeyError(case.family)


def _program(
    module: str, function: str, types: tuple[str, ...], config: Config, **constants: int
) -> Program:
    values: Mapping[str, int | bool | str] = constants or config.constants
    name = f"smforge.kernels.triton_{module}"
    return Program(name, function, types, values, config.num_warps, config.num_stages)


SUM_ROWS = {"ROWS": 32, "COLUMNS": 64}


def _layer_norm_backward(pointer: str, config: Config) -> tuple[Program, ...]:
    types = (pointer,) * 3 + ("*fp32",) * 2 + (pointer,) + ("*fp32",) * 2 + ("i32",) * 2
    sums = ("*fp32", pointer, "i32", "i32")
    return (
        _program("rows", "layer_norm_backward", types, config),
        _program("rows", "sum_rows", sums, Config(), **SUM_ROWS),
    )


def _gemm(case: Case, element: str, config: Config) -> Program:
    out = "fp16" if case.dtype == "fp8" else element
    types = (f"*{element}", f"*{element}", f"*{out}", "i32", "i32", "i32")
    if config.variant != "tma":
        return _program("gemm", "gemm", types, config)
    # The grid is the number of multiprocessors; 132 is an H200's.
    constants = {**config.constants, "PROGRAMS": 132}
    name = "smforge.kernels.triton_gemm"
    return Program(name, "gemm_tma", types, constants, config.num_warps, config.num_stages)


def _attention(element: str, config: Config) -> Program:
    tensors = (f"*{element}",) * 4 + ("*fp32",)
    if config.variant == "gluon":
        module, types = "smforge.kernels.gluon_attention", (*tensors, "i32", "i32", "fp32")
        return Program(module, "attention", types, config.constants, config.num_warps,
                       config.num_stages)  # fmt: skip
    function = "attention_tma" if config.variant == "tma" else "attention"
    return _program("attention", function, (*tensors, "i32", "fp32"), config)


def _attention_backward(pointer: str, config: Config) -> tuple[Program, ...]:
    depth = int(config.constants["D"])
    shared = (pointer,) * 4 + ("*fp32",) * 2
    numbers = ("i32", "fp32", "fp32")
    return (
        _program("attention", "attention_delta", (pointer,) * 2 + ("*fp32", "i32"), Config(),
                 BM=128, D=depth),
        _program("attention", "attention_backward_kv", shared + (pointer,) * 2 + numbers, config),
        _program("attention", "attention_backward_q", (*shared, pointer, *numbers), config),
    )  # fmt: skip
