"""Launch configurations of the Triton kernels, by architecture: the small sets autotuning tries.

The first of a set is the default: what compiles ahead of time without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Capability = tuple[int, int]
Constants = dict[str, int | bool | str]

# Shared memory one block may use, in KiB: CUDA C++ Programming Guide, technical specifications
# per compute capability.
SHARED_KIB: dict[Capability, int] = {
    (3, 5): 48, (5, 0): 48, (6, 0): 48, (6, 1): 48, (7, 0): 96, (7, 5): 64, (8, 0): 163,
    (8, 6): 99, (8, 9): 99, (9, 0): 227, (10, 0): 227, (12, 0): 99,
}  # fmt: skip

# The first Triton whose tensor descriptors (TMA) are passed from the host.
TMA_TRITON = (3, 4)
# The first whose Gluon takes gluon_attention.py; ahead of time 3.7 too.
GLUON_TRITON = (3, 6)


@dataclass(frozen=True)
class Config:
    """Compile-time constants of one kernel, and how many warps and pipeline stages it gets."""

    constants: Mapping[str, int | bool | str] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    variant: str = "pointers"
    programs_per_sm: int = 1  # persistent kernels: how many programs a multiprocessor gets

    @property
    def label(self) -> str:
        """One word a table can show: `tma 128x256x64 w8 s3`."""
        if not self.constants:
            return self.variant
        blocks = "x".join(str(v) for v in self.constants.values() if type(v) is int and v > 1)
        flags = "".join(f" {k.lower()}" for k, v in self.constants.items() if v is True)
        return f"{self.variant} {blocks} w{self.num_warps} s{self.num_stages}{flags}"


def configs(
    family: str, dtype: str, capability: Capability, triton: tuple[int, int]
) -> tuple[Config, ...]:
    """The configurations to try for a family of kernels; raises KeyError for an unknown family."""
    if family == "gemm":
        return _gemm(dtype, capability, triton)
    if family == "attention":
        return _attention(capability, triton)
    return _PLAIN[family](capability)


def offers_tma(capability: Capability, triton: tuple[int, int]) -> bool:
    """Whether kernels may use the bulk tensor copies: the card has them and this Triton too."""
    return capability in {(9, 0), (10, 0), (12, 0)} and triton >= TMA_TRITON


def _tile(bm: int, bn: int, bk: int, warps: int, stages: int, precision: str = "tf32") -> Config:
    constants: Constants = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "PRECISION": precision}
    return Config(constants, warps, stages)


def _tma_tile(bm: int, bn: int, bk: int, warps: int, stages: int, split: bool = False) -> Config:
    constants: Constants = {
        "BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "SPLIT": split,
        "WARP_SPECIALIZE": False, "FLATTEN": True,
    }  # fmt: skip
    return Config(constants, warps, stages, "tma")


def _gemm(dtype: str, capability: Capability, triton: tuple[int, int]) -> tuple[Config, ...]:
    if capability < (7, 0):  # no tensor cores: a large tile is unrolled into scalar code
        return (_tile(32, 32, 32, 4, 2, "ieee"),)
    if dtype == "fp32":
        return (_tile(128, 64, 16, 4, 2, "ieee"), _tile(64, 64, 16, 4, 2, "ieee"))
    if capability < (8, 0):
        return (_tile(128, 128, 32, 4, 2), _tile(64, 64, 32, 4, 2))
    deep = {"tf32": 32, "fp8": 128}.get(dtype, 64)
    if offers_tma(capability, triton):
        return _gemm_tma(capability, deep)
    if capability == (8, 0):
        return (_tile(128, 128, deep // 2, 4, 4), _tile(128, 256, deep // 2, 8, 3))
    return (_tile(128, 128, deep // 2, 4, 3), _tile(64, 128, deep // 2, 4, 3))


def _gemm_tma(capability: Capability, deep: int) -> tuple[Config, ...]:
    if capability == (12, 0):
        return (_tma_tile(128, 128, deep, 8, 2), _tile(128, 128, deep // 2, 4, 3))
    if deep == 32:  # tf32: a tile of results is as large as two of fp16
        small = _tma_tile(128, 128, 32, 8, 4)
        large = _tma_tile(128, 256, 32, 8, 3, split=True)
        return (large, small) if capability == (9, 0) else (small,)
    return (_tma_tile(128, 256, deep, 8, 3), _tma_tile(128, 256, deep, 8, 4, split=True))


def _attention(capability: Capability, triton: tuple[int, int]) -> tuple[Config, ...]:
    if capability < (7, 0):
        return (Config({"BM": 32, "BN": 32, "D": 64}, 4, 2),)
    if capability < (8, 0):
        return (Config({"BM": 64, "BN": 64, "D": 64}, 4, 2),)
    if capability == (9, 0) and triton >= GLUON_TRITON:
        # 8 heads a group: their keys and values stay in L2 while all tiles pass over them.
        gluon: Constants = {"BLOCK": 128, "D": 128, "STAGES": 2, "GROUP": 8}
        return (Config(gluon, 4, 1, "gluon"),)
    if offers_tma(capability, triton) and capability != (12, 0):
        tma: Constants = {"BM": 64, "BN": 64, "D": 128, "WARP_SPECIALIZE": False}
        return (Config(tma, 4, 3, "tma"), Config({**tma, "BM": 128}, 8, 3, "tma"))
    if capability == (8, 0):
        return (Config({"BM": 128, "BN": 32, "D": 128}, 8, 3),)
    return (Config({"BM": 64, "BN": 32, "D": 128}, 4, 3),)


def _attention_backward(capability: Capability) -> tuple[Config, ...]:
    if capability < (7, 0):  # 32 x 32 spills 12 kB
        return (Config({"BM": 16, "BN": 16, "D": 64}, 4, 1),)
    if capability < (8, 0):
        return (Config({"BM": 32, "BN": 64, "D": 64}, 4, 1),)
    if capability in {(9, 0), (10, 0)}:
        return (Config({"BM": 64, "BN": 64, "D": 128}, 4, 2),)
    if capability == (8, 0):
        return (Config({"BM": 64, "BN": 64, "D": 128}, 8, 2),)
    return (Config({"BM": 32, "BN": 64, "D": 128}, 4, 2),)


def _elementwise(capability: Capability) -> tuple[Config, ...]:
    del capability
    return (Config({"BLOCK": 1024}, 8), Config({"BLOCK": 4096}, 8))


def _rows(capability: Capability) -> tuple[Config, ...]:
    del capability
    return (Config({"BLOCK": 4096}, 4), Config({"BLOCK": 4096}, 8))


def _rows_backward(capability: Capability) -> tuple[Config, ...]:
    if capability < (8, 0):  # no asynchronous copies to fetch ahead with
        return (Config({"BLOCK": 4096, "STAGES": 1}, 8, programs_per_sm=2),)
    return (
        Config({"BLOCK": 4096, "STAGES": 3}, 4, programs_per_sm=2),
        Config({"BLOCK": 4096, "STAGES": 3}, 8, programs_per_sm=2),
    )


_PLAIN = {
    "vector-add": _elementwise,
    "cast": _elementwise,
    "softmax": _rows,
    "layer-norm": _rows,
    "layer-norm-backward": _rows_backward,
    "attention-backward": _attention_backward,
}
