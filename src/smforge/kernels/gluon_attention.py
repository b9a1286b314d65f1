"""Causal flash attention for sm_90 in Gluon, Triton's lower language: each warp has its role.

Triton's compiler leaves the tensor cores idle while the same warps compute a softmax. Here two
groups of four warps each own half of a tile's queries and keep two products in flight (the next
scores, and the last weights times the values) behind their exponentials, while one warp does
nothing but fetch: the plan of FlashAttention-3 (Shah et al. 2024, sections 3.1 and 3.2).

q, k, v, out are (heads, T, D), contiguous, T % BLOCK == 0; lse is (heads, T) in fp32; scale holds
log2(e). Persistent: one program a multiprocessor. Needs Triton >= 3.6.
"""
# mypy: ignore-errors
# ruff: noqa: SIM113 - the kernel language has no enumerate

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

FULL = gl.constexpr(0)  # barriers come in two rows: the data is there, ...
FREE = gl.constexpr(1)  # ... or both groups of warps are done with it


@gluon.jit
def _work(item, tiles, heads, GROUP: gl.constexpr):
    """Head and tile of a work item: the longest rows first, in groups of heads that fit L2."""
    before = item // (tiles * GROUP) * GROUP
    rest = item % (tiles * GROUP)
    heads_here = gl.minimum(GROUP, heads - before)
    return before + rest % heads_here, tiles - 1 - rest // heads_here


@gluon.jit
def _fetch(
    from_q, from_k, from_v, sm_q, sm_k, sm_v, bar_q, bar_k, bar_v, T, tiles, heads,
    BLOCK: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """One warp: the queries of each tile, then its keys and values from the diagonal leftwards."""
    HALF: gl.constexpr = BLOCK // 2
    count = 0
    turn = 0
    for item in range(gl.program_id(0), tiles * heads, gl.num_programs(0)):
        head, tile = _work(item, tiles, heads, GROUP)
        base = head * T
        full = bar_q.index(FULL)
        mbarrier.wait(bar_q.index(FREE), (turn & 1) ^ 1)
        mbarrier.expect(full, 2 * from_q.block_type.nbytes)
        for half in gl.static_range(2):
            at = base + tile * BLOCK + half * HALF
            tma.async_copy_global_to_shared(from_q, [at, 0], full, sm_q.index(half))
        turn += 1
        for step in range(tile + 1):
            at = base + (tile - step) * BLOCK
            slot = count % STAGES
            phase = ((count // STAGES) & 1) ^ 1
            mbarrier.wait(bar_k.index(FREE * STAGES + slot), phase)
            mbarrier.expect(bar_k.index(slot), from_k.block_type.nbytes)
            tma.async_copy_global_to_shared(from_k, [at, 0], bar_k.index(slot), sm_k.index(slot))
            mbarrier.wait(bar_v.index(FREE * STAGES + slot), phase)
            mbarrier.expect(bar_v.index(slot), from_v.block_type.nbytes)
            tma.async_copy_global_to_shared(from_v, [at, 0], bar_v.index(slot), sm_v.index(slot))
            count += 1


@gluon.jit
def _attend(
    to_out, lse, sm_q, sm_k, sm_v, sm_out, bar_q, bar_k, bar_v, T, scale, tiles, heads,
    BLOCK: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
    ME: gl.constexpr,
):  # fmt: skip
    """Four warps: half ME of each tile's queries."""
    HALF: gl.constexpr = BLOCK // 2
    in_scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])
    in_total: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    in_weight: gl.constexpr = gl.DotOperandLayout(0, in_total, 2)
    tile_q = sm_q.index(ME)
    zero = gl.zeros([HALF, BLOCK], gl.float32, in_scores)
    count = 0
    turn = 0
    for item in range(gl.program_id(0), tiles * heads, gl.num_programs(0)):
        head, tile = _work(item, tiles, heads, GROUP)
        first_row = tile * BLOCK + ME * HALF
        mbarrier.wait(bar_q.index(FULL), turn & 1)
        turn += 1
        # The block on the diagonal comes first: it alone is masked, and gives every row a maximum.
        slot = count % STAGES
        mbarrier.wait(bar_k.index(slot), (count // STAGES) & 1)
        keys = sm_k.index(slot).permute((1, 0))
        token = warpgroup_mma(tile_q, keys, zero, use_acc=False, is_async=True)
        score = warpgroup_mma_wait(0, [token])
        mbarrier.arrive(bar_k.index(FREE * STAGES + slot), count=1)
        row = ME * HALF + gl.arange(0, HALF, gl.SliceLayout(1, in_scores))
        spot = gl.arange(0, BLOCK, gl.SliceLayout(0, in_scores))
        score = gl.where(row[:, None] >= spot[None, :], score, -1.0e30)
        peak = gl.max(score, 1) * scale
        weight = gl.exp2(score * scale - peak[:, None])
        norm = gl.sum(weight, 1)
        total = gl.zeros([HALF, D], gl.float32, in_total)
        operand = gl.convert_layout(weight.to(sm_v.dtype), in_weight)
        for _step in range(tile):
            total, peak, norm, operand = _next(
                tile_q, sm_k, sm_v, bar_k, bar_v, total, peak, norm, operand, scale, count, zero,
                STAGES,
            )  # fmt: skip
            count += 1
        mbarrier.arrive(bar_q.index(FREE), count=1)
        slot = count % STAGES
        mbarrier.wait(bar_v.index(slot), (count // STAGES) & 1)
        token = warpgroup_mma(operand, sm_v.index(slot), total, is_async=True)
        total = warpgroup_mma_wait(0, [token])
        mbarrier.arrive(bar_v.index(FREE * STAGES + slot), count=1)
        count += 1
        result = total * gl.convert_layout(1.0 / norm, gl.SliceLayout(1, in_total))[:, None]
        tma.store_wait(0)  # the last tile's store has read its buffer
        sm_out.index(ME).store(result.to(sm_out.dtype))
        fence_async_shared()
        at = head * T + first_row
        tma.async_copy_shared_to_global(to_out, [at, 0], sm_out.index(ME))
        rows = gl.arange(0, HALF, gl.SliceLayout(1, in_scores))
        gl.store(lse + at + rows, peak + gl.log2(norm))
    tma.store_wait(0)


@gluon.jit
def _next(
    tile_q, sm_k, sm_v, bar_k, bar_v, total, peak, norm, operand, scale, count, zero,
    STAGES: gl.constexpr,
):  # fmt: skip
    """The next block's softmax, while the tensor cores add the last block's weighted values."""
    last = count % STAGES
    slot = (count + 1) % STAGES
    mbarrier.wait(bar_k.index(slot), ((count + 1) // STAGES) & 1)
    keys = sm_k.index(slot).permute((1, 0))
    scores = warpgroup_mma(tile_q, keys, zero, use_acc=False, is_async=True)
    mbarrier.wait(bar_v.index(last), (count // STAGES) & 1)
    values = warpgroup_mma(operand, sm_v.index(last), total, is_async=True)
    score = warpgroup_mma_wait(1, [scores])
    mbarrier.arrive(bar_k.index(FREE * STAGES + slot), count=1)
    higher = gl.maximum(peak, gl.max(score, 1) * scale)
    weight = gl.exp2(score * scale - higher[:, None])
    shrink = gl.exp2(peak - higher)
    norm = norm * shrink + gl.sum(weight, 1)
    total = warpgroup_mma_wait(0, [values])
    mbarrier.arrive(bar_v.index(FREE * STAGES + last), count=1)
    in_rows: gl.constexpr = gl.SliceLayout(1, total.type.layout)
    total = total * gl.convert_layout(shrink, in_rows)[:, None]
    return total, higher, norm, gl.convert_layout(weight.to(sm_v.dtype), operand.type.layout)


@gluon.jit
def attention(
    q, k, v, out, lse, T, heads, scale,
    BLOCK: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """The kernel: buffers, barriers, and three partitions of warps."""
    HALF: gl.constexpr = BLOCK // 2
    dtype: gl.constexpr = q.dtype.element_ty
    whole: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK, D], dtype)
    half: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, D], dtype)
    shape = [heads * T, D]
    from_q = tma.make_tensor_descriptor(q, shape, [D, 1], [HALF, D], half)
    from_k = tma.make_tensor_descriptor(k, shape, [D, 1], [BLOCK, D], whole)
    from_v = tma.make_tensor_descriptor(v, shape, [D, 1], [BLOCK, D], whole)
    to_out = tma.make_tensor_descriptor(out, shape, [D, 1], [HALF, D], half)
    sm_q = gl.allocate_shared_memory(dtype, [2, HALF, D], half)
    sm_out = gl.allocate_shared_memory(dtype, [2, HALF, D], half)
    sm_k = gl.allocate_shared_memory(dtype, [STAGES, BLOCK, D], whole)
    sm_v = gl.allocate_shared_memory(dtype, [STAGES, BLOCK, D], whole)
    bar_q = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    bar_k = gl.allocate_shared_memory(gl.int64, [2 * STAGES, 1], mbarrier.MBarrierLayout())
    bar_v = gl.allocate_shared_memory(gl.int64, [2 * STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bar_q.index(FULL), count=1)
    mbarrier.init(bar_q.index(FREE), count=2)
    for slot in gl.static_range(STAGES):
        mbarrier.init(bar_k.index(slot), count=1)
        mbarrier.init(bar_v.index(slot), count=1)
        mbarrier.init(bar_k.index(FREE * STAGES + slot), count=2)
        mbarrier.init(bar_v.index(FREE * STAGES + slot), count=2)
    fence_async_shared()
    tiles = T // BLOCK
    # Registers of a thread: 64 scores, 64 sums and 32 weights need most of 240; fetching few.
    gl.warp_specialize(
        [
            (_attend, (to_out, lse, sm_q, sm_k, sm_v, sm_out, bar_q, bar_k, bar_v, T, scale, tiles,
                       heads, BLOCK, D, STAGES, GROUP, 0)),
            (_attend, (to_out, lse, sm_q, sm_k, sm_v, sm_out, bar_q, bar_k, bar_v, T, scale, tiles,
                       heads, BLOCK, D, STAGES, GROUP, 1)),
            (_fetch, (from_q, from_k, from_v, sm_q, sm_k, sm_v, bar_q, bar_k, bar_v, T, tiles,
                      heads, BLOCK, STAGES, GROUP)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
