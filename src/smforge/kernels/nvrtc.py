"""NVRTC through ctypes: CUDA C++ source to PTX and cubin, without nvcc or a GPU."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path

from smforge.errors import ToolchainError


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made of one source: PTX text, machine code and the compiler's log."""

    ptx: str
    cubin: bytes
    log: str


class Nvrtc:
    """One loaded NVRTC; `version` is (major, minor). Raises ToolchainError for a broken library."""

    def __init__(self, library: Path) -> None:
        if sys.platform == "win32":  # nvrtc-builtins lies beside it
            os.add_dll_directory(str(library.parent))
        try:
            self._lib = ctypes.CDLL(str(library))
        except OSError as error:
            raise ToolchainError(f"NVRTC does not load: {error}") from error
        self._lib.nvrtcGetErrorString.restype = c_char_p
        self._lib.nvrtcGetErrorString.argtypes = [c_int]
        major, minor = c_int(), c_int()
        self._check(self._lib.nvrtcVersion(byref(major), byref(minor)))
        self.version = (major.value, minor.value)

    def architectures(self) -> tuple[int, ...]:
        """The compute capabilities it compiles for, as 86 for 8.6."""
        count = c_int()
        self._check(self._lib.nvrtcGetNumSupportedArchs(byref(count)))
        found = (c_int * count.value)()
        self._check(self._lib.nvrtcGetSupportedArchs(found))
        return tuple(found)

    def compile(self, source: Path, capability: int, include: tuple[Path, ...]) -> Compiled:
        """PTX and cubin of one .cu file; raises ToolchainError with the compiler's first error."""
        options = [
            f"--gpu-architecture=sm_{capability}",
            "--std=c++14",
            "--ptxas-options=-v",
            *(f"--include-path={folder}" for folder in include),
        ]
        program = c_void_p()
        text, name = source.read_bytes(), source.name.encode()
        create = self._lib.nvrtcCreateProgram
        create.argtypes = [POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p]
        self._check(create(byref(program), text, name, 0, None, None))
        try:
            values = (c_char_p * len(options))(*(option.encode() for option in options))
            code = self._lib.nvrtcCompileProgram(program, len(options), values)
            log = self._read(program, "ProgramLog").decode(errors="replace")
            if code:
                raise ToolchainError(f"{source.name}: {first_error(log)}")
            ptx = self._read(program, "PTX").decode()
            return Compiled(ptx, self._read(program, "CUBIN"), log)
        finally:
            self._lib.nvrtcDestroyProgram(byref(program))

    def _read(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._check(getattr(self._lib, f"nvrtcGet{what}Size")(program, byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._lib, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw if what == "CUBIN" else buffer.value

    def _check(self, code: int) -> None:
        if code:
            reason = self._lib.nvrtcGetErrorString(code)
            raise ToolchainError(f"NVRTC: {(reason or b'unknown error').decode()}")


def first_error(log: str) -> str:
    """The first line of a compiler's log that says error, else its first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"error|fatal", line, re.I)]
    return (errors or lines or ["no message"])[0][:300]


def find_library(folders: list[Path]) -> Path | None:
    """The first NVRTC in these folders, not the builtins or the smaller `alt` build."""
    pattern = "nvrtc64_*.dll" if os.name == "nt" else "libnvrtc.so*"
    for folder in folders:
        found = sorted(p for p in folder.glob(pattern) if ".alt" not in p.name)
        if found:
            return found[0]
    return None


def find_headers(folders: list[Path]) -> tuple[Path, ...]:
    """Of these include folders, those that hold cuda_fp16.h or what it includes (nv/target)."""
    return tuple(f for f in folders if (f / "cuda_fp16.h").is_file() or (f / "nv/target").is_file())
