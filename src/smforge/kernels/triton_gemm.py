"""Triton matrix products: C (M, N) = A (M, K) @ B (N, K)^T, all row-major and contiguous.

B is held transposed, as the weight of a linear layer is: fp8 tensor cores take no other layout.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(index, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of tile number `index`: GROUP rows of tiles share their columns in L2."""
    tiles_m = tl.cdiv(M, BM)
    in_group = GROUP * tl.cdiv(N, BN)
    first = (index // in_group) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    return first + (index % in_group) % height, (index % in_group) // height


@triton.jit
def gemm(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One (BM, BN) tile a program, through pointers; sums in fp32. For every architecture."""
    tile_m, tile_n = _tile(tl.program_id(0), M, N, BM, BN, GROUP)
    row = (tile_m * BM + tl.arange(0, BM)).to(tl.int64)
    column = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)
    inner = tl.arange(0, BK)
    at_a = a + row[:, None] * K + inner[None, :]
    at_b = b + column[None, :] * K + inner[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, K, BK):
        left = inner < K - first
        tile_a = tl.load(at_a, mask=(row[:, None] < M) & left[None, :], other=0.0)
        tile_b = tl.load(at_b, mask=left[:, None] & (column[None, :] < N), other=0.0)
        total = tl.dot(tile_a, tile_b, total, input_precision=PRECISION)
        at_a += BK
        at_b += BK
    at_c = c + row[:, None] * N + column[None, :]
    tl.store(at_c, total.to(c.dtype.element_ty), mask=(row[:, None] < M) & (column[None, :] < N))


@triton.jit
def gemm_tma(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr, SPLIT: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
    FLATTEN: tl.constexpr,
):  # fmt: skip
    """Persistent over tiles, through tensor descriptors (TMA): sm_90 and up, Triton >= 3.4.

    SPLIT stores a tile in two halves, which halves the shared memory the epilogue needs.
    """
    # Made here, not on the host: Hopper's warp specialization splits tiles between two groups of
    # warps, and can rewrite only descriptors whose shape it sees.
    from_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    from_b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    to_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN // 2 if SPLIT else BN])
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    steps = tl.cdiv(K, BK)
    for index in tl.range(
        tl.program_id(0), tiles, PROGRAMS, flatten=FLATTEN, warp_specialize=WARP_SPECIALIZE
    ):
        tile_m, tile_n = _tile(index, M, N, BM, BN, GROUP)
        row = tile_m * BM
        column = tile_n * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(steps):
            tile_a = from_a.load([row, step * BK])
            tile_b = from_b.load([column, step * BK])
            total = tl.dot(tile_a, tile_b.T, total)
        if SPLIT:
            halves = tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            to_c.store([row, column], left.to(c.dtype.element_ty))
            to_c.store([row, column + BN // 2], right.to(c.dtype.element_ty))
        else:
            to_c.store([row, column], total.to(c.dtype.element_ty))
