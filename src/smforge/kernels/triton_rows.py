"""Triton kernels over the rows of a contiguous matrix: softmax, layer norm and its backward.

A row is one block of BLOCK >= columns elements, so that it is read once from memory.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    """out[r] = softmax(x[r]), one row a program; sums in fp32."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    start = row * columns
    value = tl.load(x + start + column, mask=inside, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    result = power / tl.sum(power, axis=0)
    tl.store(out + start + column, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm(x, weight, bias, out, mean, rstd, columns, epsilon, BLOCK: tl.constexpr):
    """out[r] = (x[r] - mean) * rstd * weight + bias; mean and rstd (rows,) are kept in fp32."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    start = row * columns
    value = tl.load(x + start + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    average = tl.sum(value, axis=0) / columns
    centred = tl.where(inside, value - average, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    result = centred * inverse * scale + shift
    tl.store(out + start + column, result.to(out.dtype.element_ty), mask=inside)
    tl.store(mean + row, average)
    tl.store(rstd + row, inverse)


@triton.jit
def layer_norm_backward(
    grad, x, weight, mean, rstd, grad_x, partial_weight, partial_bias, rows, columns,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """grad_x, and this program's share of the weight's and bias's gradients.

    Program p takes rows p, p + programs, ...; partial_* are (programs, columns) in fp32.
    """
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    sum_weight = tl.zeros((BLOCK,), tl.float32)
    sum_bias = tl.zeros((BLOCK,), tl.float32)
    at = program.to(tl.int64) * columns + column
    # The next rows are fetched while this one is summed: one row in flight leaves memory idle.
    for row in tl.range(program, rows, programs, num_stages=STAGES):
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        slope = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
        inverse = tl.load(rstd + row)
        normal = tl.where(inside, (value - tl.load(mean + row)) * inverse, 0.0)
        sum_weight += slope * normal
        sum_bias += slope
        slope *= scale
        along = tl.sum(normal * slope, axis=0) / columns
        average = tl.sum(slope, axis=0) / columns
        result = (slope - (normal * along + average)) * inverse
        tl.store(grad_x + at, result.to(grad_x.dtype.element_ty), mask=inside)
        at += programs * columns
    share = program.to(tl.int64) * columns + column
    tl.store(partial_weight + share, sum_weight, mask=inside)
    tl.store(partial_bias + share, sum_bias, mask=inside)


@triton.jit
def sum_rows(partial, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out[c] = sum over rows of the fp32 matrix partial[:, c]; a program sums COLUMNS columns."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.load(partial + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    result = tl.sum(total, axis=0)
    tl.store(out + column, result.to(out.dtype.element_ty), mask=column < columns)
