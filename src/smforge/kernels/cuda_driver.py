"""Load a cubin and launch its kernel through the CUDA driver, in the context torch made."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_char_p, c_int, c_longlong, c_uint, c_void_p
from typing import Any

import torch

from smforge.errors import ToolchainError

Grid = tuple[int, int]


class Module:
    """One loaded cubin. Raises ToolchainError where the driver refuses it."""

    def __init__(self, cubin: bytes) -> None:
        torch.cuda.current_stream()  # makes torch's context, which is then the current one
        torch.zeros(1, device="cuda")
        self._cuda = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        self._image = cubin  # the driver reads it lazily
        self._module = c_void_p()
        self._check(self._cuda.cuModuleLoadData(byref(self._module), c_char_p(cubin)))

    def launch(self, name: str, grid: Grid, threads: int, *arguments: Any) -> None:
        """Start a kernel on torch's current stream; arguments are tensors, or (ctype, value)."""
        function = c_void_p()
        found = self._cuda.cuModuleGetFunction(byref(function), self._module, name.encode())
        self._check(found)
        values = [_argument(argument) for argument in arguments]
        pointers = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        one = c_uint(1)
        self._check(
            self._cuda.cuLaunchKernel(
                function, c_uint(grid[0]), c_uint(grid[1]), one, c_uint(threads), one, one,
                c_uint(0), stream, pointers, None,
            )
        )  # fmt: skip

    def _check(self, code: int) -> None:
        if code:
            name = c_char_p()
            self._cuda.cuGetErrorName(c_int(code), byref(name))
            word = (name.value or b"unknown error").decode()
            raise ToolchainError(f"the CUDA driver says {word} ({code})")


def _argument(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return c_void_p(value.data_ptr())
    return c_longlong(value[1]) if value[0] == "i64" else c_int(value[1])
