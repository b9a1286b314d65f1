"""Triton kernels that touch every element once: vector add and casts to fp8."""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    """out[i] = x[i] + y[i] for i < n; a program adds BLOCK elements."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    total = tl.load(x + index, mask=inside) + tl.load(y + index, mask=inside)
    tl.store(out + index, total, mask=inside)


@triton.jit
def cast(x, out, n, BLOCK: tl.constexpr):
    """out[i] = x[i] rounded to out's dtype; a program casts BLOCK elements."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    value = tl.load(x + index, mask=inside)
    tl.store(out + index, value.to(out.dtype.element_ty), mask=inside)
