"""Causal flash attention in Triton: forward and backward.

q, k, v, out are (batch * heads, T, D), contiguous. `scale` multiplies the scores and holds log2(e),
so that exp2 serves; `lse` (batch * heads, T) is the base-2 log of each row's sum, in fp32.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _block(tile_q, tile_k, tile_v, total, peak, norm, scale, keep, MASKED: tl.constexpr):
    """One online-softmax step: scores of a block of keys, rescaled sums, weighted values."""
    score = tl.dot(tile_q, tile_k)
    if MASKED:
        score = tl.where(keep, score * scale, -1.0e6)
        higher = tl.maximum(peak, tl.max(score, 1))
        score -= higher[:, None]
    else:
        higher = tl.maximum(peak, tl.max(score, 1) * scale)
        score = score * scale - higher[:, None]
    weight = tl.math.exp2(score)
    shrink = tl.math.exp2(peak - higher)
    norm = norm * shrink + tl.sum(weight, 1)
    total = total * shrink[:, None]
    total = tl.dot(weight.to(tile_v.dtype), tile_v, total)
    return total, higher, norm


@triton.jit
def attention(q, k, v, out, lse, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """BM queries of one head a program, through pointers; BM is a multiple of BN."""
    # The longest rows start first: the last wave is then the short ones.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * T * D
    row = tile * BM + tl.arange(0, BM)
    depth = tl.arange(0, D)
    key = tl.arange(0, BN)
    at = base + row[:, None] * D + depth[None, :]
    tile_q = tl.load(q + at, mask=row[:, None] < T, other=0.0)
    peak = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, tile * BM, BN):
        spot = first + key
        tile_k = tl.load(k + base + spot[None, :] * D + depth[:, None])
        tile_v = tl.load(v + base + spot[:, None] * D + depth[None, :])
        total, peak, norm = _block(tile_q, tile_k, tile_v, total, peak, norm, scale, True, False)
    for first in range(tile * BM, tl.minimum((tile + 1) * BM, T), BN):
        spot = first + key
        tile_k = tl.load(
            k + base + spot[None, :] * D + depth[:, None], mask=spot[None, :] < T, other=0.0
        )
        tile_v = tl.load(
            v + base + spot[:, None] * D + depth[None, :], mask=spot[:, None] < T, other=0.0
        )
        keep = row[:, None] >= spot[None, :]
        total, peak, norm = _block(tile_q, tile_k, tile_v, total, peak, norm, scale, keep, True)
    result = total / norm[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=row[:, None] < T)
    tl.store(lse + tl.program_id(1).to(tl.int64) * T + row, peak + tl.math.log2(norm), mask=row < T)


@triton.jit
def attention_tma(
    q, k, v, out, lse, T, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """As `attention`, through tensor descriptors over (batch * heads * T, D); T % BM == 0.

    For sm_90 and up with Triton >= 3.4.
    """
    rows = tl.num_programs(1) * T
    from_q = tl.make_tensor_descriptor(q, [rows, D], [D, 1], [BM, D])
    from_k = tl.make_tensor_descriptor(k, [rows, D], [D, 1], [BN, D])
    from_v = tl.make_tensor_descriptor(v, [rows, D], [D, 1], [BN, D])
    to_out = tl.make_tensor_descriptor(out, [rows, D], [D, 1], [BM, D])
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    base = tl.program_id(1) * T
    row = tile * BM + tl.arange(0, BM)
    key = tl.arange(0, BN)
    tile_q = from_q.load([base + tile * BM, 0])
    peak = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for first in tl.range(0, tile * BM, BN, warp_specialize=WARP_SPECIALIZE):
        tile_k = from_k.load([base + first, 0]).T
        tile_v = from_v.load([base + first, 0])
        total, peak, norm = _block(tile_q, tile_k, tile_v, total, peak, norm, scale, True, False)
    for first in tl.range(tile * BM, (tile + 1) * BM, BN, warp_specialize=WARP_SPECIALIZE):
        tile_k = from_k.load([base + first, 0]).T
        tile_v = from_v.load([base + first, 0])
        keep = row[:, None] >= (first + key)[None, :]
        total, peak, norm = _block(tile_q, tile_k, tile_v, total, peak, norm, scale, keep, True)
    result = total / norm[:, None]
    to_out.store([base + tile * BM, 0], result.to(out.dtype.element_ty))
    tl.store(lse + base + row, peak + tl.math.log2(norm))


@triton.jit
def attention_delta(out, grad, delta, T, BM: tl.constexpr, D: tl.constexpr):
    """delta[r] = sum over d of out[r, d] * grad[r, d], in fp32: what backward subtracts."""
    base = tl.program_id(1).to(tl.int64) * T
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    at = (base + row)[:, None] * D + tl.arange(0, D)[None, :]
    inside = row[:, None] < T
    tile_out = tl.load(out + at, mask=inside, other=0.0).to(tl.float32)
    tile_grad = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(delta + base + row, tl.sum(tile_out * tile_grad, 1), mask=row < T)


@triton.jit
def attention_backward_kv(
    q, k, v, grad, lse, delta, grad_k, grad_v, T, scale, soft_scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Gradients of BN keys and values of one head a program; loops over the queries below."""
    head = tl.program_id(1).to(tl.int64) * T
    first_key = tl.program_id(0) * BN
    spot = first_key + tl.arange(0, BN)
    depth = tl.arange(0, D)
    at = (head + spot)[:, None] * D + depth[None, :]
    here = spot[:, None] < T
    tile_k = tl.load(k + at, mask=here, other=0.0)
    tile_v = tl.load(v + at, mask=here, other=0.0)
    sum_k = tl.zeros((BN, D), tl.float32)
    sum_v = tl.zeros((BN, D), tl.float32)
    for first in range((first_key // BM) * BM, T, BM):
        row = first + tl.arange(0, BM)
        inside = row < T
        at_row = (head + row)[:, None] * D + depth[None, :]
        tile_q = tl.load(q + at_row, mask=inside[:, None], other=0.0)
        tile_grad = tl.load(grad + at_row, mask=inside[:, None], other=0.0)
        log_sum = tl.load(lse + head + row, mask=inside, other=0.0)
        minus = tl.load(delta + head + row, mask=inside, other=0.0)
        score = tl.dot(tile_k, tl.trans(tile_q)) * scale - log_sum[None, :]
        keep = (row[None, :] >= spot[:, None]) & inside[None, :]
        weight = tl.where(keep, tl.math.exp2(score), 0.0)
        sum_v = tl.dot(weight.to(tile_grad.dtype), tile_grad, sum_v)
        slope = weight * (tl.dot(tile_v, tl.trans(tile_grad)) - minus[None, :])
        sum_k = tl.dot(slope.to(tile_q.dtype), tile_q, sum_k)
    tl.store(grad_k + at, (sum_k * soft_scale).to(grad_k.dtype.element_ty), mask=here)
    tl.store(grad_v + at, sum_v.to(grad_v.dtype.element_ty), mask=here)


@triton.jit
def attention_backward_q(
    q, k, v, grad, lse, delta, grad_q, T, scale, soft_scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Gradients of BM queries of one head a program; loops over the keys to their left."""
    head = tl.program_id(1).to(tl.int64) * T
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    row = tile * BM + tl.arange(0, BM)
    depth = tl.arange(0, D)
    at = (head + row)[:, None] * D + depth[None, :]
    inside = row < T
    tile_q = tl.load(q + at, mask=inside[:, None], other=0.0)
    tile_grad = tl.load(grad + at, mask=inside[:, None], other=0.0)
    log_sum = tl.load(lse + head + row, mask=inside, other=0.0)
    minus = tl.load(delta + head + row, mask=inside, other=0.0)
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, tl.minimum((tile + 1) * BM, T), BN):
        spot = first + tl.arange(0, BN)
        at_key = (head + spot)[:, None] * D + depth[None, :]
        tile_k = tl.load(k + at_key, mask=spot[:, None] < T, other=0.0)
        tile_v = tl.load(v + at_key, mask=spot[:, None] < T, other=0.0)
        score = tl.dot(tile_q, tl.trans(tile_k)) * scale - log_sum[:, None]
        weight = tl.where(row[:, None] >= spot[None, :], tl.math.exp2(score), 0.0)
        slope = weight * (tl.dot(tile_grad, tl.trans(tile_v)) - minus[:, None])
        total = tl.dot(slope.to(tile_k.dtype), tile_k, total)
    tl.store(grad_q + at, (total * soft_scale).to(grad_q.dtype.element_ty), mask=inside[:, None])
