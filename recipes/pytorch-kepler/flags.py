"""What PyTorch's build is told: every variable with its reason, and the CPU levels."""

from __future__ import annotations

from pathlib import Path

FLAGS = {
    "USE_CUDA": "1",
    # Off at run time on these cards, yet torch.backends.cudnn has to exist for code that asks.
    "USE_CUDNN": "1",
    # There is none for Windows.
    "USE_NCCL": "0",
    # One machine, one card; it would need libuv and gloo.
    "USE_DISTRIBUTED": "0",
    # Needs compute capability 8.0.
    "USE_FLASH_ATTENTION": "0",
    # The prebuilt MAGMA for Windows starts at 3.7; torch.linalg uses cuSOLVER where it can.
    "USE_MAGMA": "0",
    # The profilers' libraries: kineto wants a CUPTI that these drivers do not have.
    "USE_KINETO": "0",
    "USE_ITT": "0",
    # A Linux interface.
    "USE_NUMA": "0",
    # Hours of compiling that nobody runs.
    "BUILD_TEST": "0",
    "INSTALL_TEST": "0",
    # Objects for two architectures stay below the 2 GB that a Windows DLL can have.
    "TORCH_NVCC_FLAGS": "-Xfatbin -compress-all",
    "CMAKE_GENERATOR": "Ninja",
    # The compiler is on PATH already (vs2019_win-64): setuptools must not look for another one.
    "DISTUTILS_USE_SDK": "1",
    # CMake 4 refuses the minimums of five submodules; CMake 3 ignores it.
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    # PyTorch appends it as a post release otherwise.
    "PYTORCH_BUILD_NUMBER": "0",
}

BLAS = {
    "mkl": {"BLAS": "MKL"},
    # Without MKL the two libraries that are built on its conventions stay out as well.
    "openblas": {"BLAS": "OpenBLAS", "USE_MKLDNN": "0", "USE_XNNPACK": "0"},
}

# level -> (vector kernels that are left out, baseline flag, XNNPACK).
# PyTorch compiles its vector kernels several times and picks at run time, so a lower level makes a
# smaller build that older CPUs lose nothing by; only the baseline flag excludes CPUs. Visual C++
# has no /arch for SSE: x64 code is SSE2 by default, which every level but avx keeps.
CPU_LEVELS = {
    "avx512": ((), "", "1"),
    "avx2": (("AVX512",), "", "0"),
    "avx": (("AVX512", "AVX2"), "/arch:AVX", "0"),
    "sse4.2": (("AVX512", "AVX2"), "", "0"),
}
# PyTorch's FindAVX asks the compiler alone; a cached answer is kept. setup.py hands variables that
# start with CMAKE_ on to CMake, which includes this file at every project().
LEFT_OUT = 'set({lang}_{kind}_FOUND FALSE CACHE BOOL "left out by the recipe\'s cpu_level")\n'

GB_PER_JOB = 3  # what one nvcc or cl of this tree takes at its worst


def environment(
    version: str, archs: str, blas: str, level: str, jobs: int, include: Path
) -> dict[str, str]:
    """Every variable of the build.

    Args:
        archs: TORCH_CUDA_ARCH_LIST, such as "3.5;3.7".
        blas: a key of BLAS.
        level: a key of CPU_LEVELS.
        jobs: compilers at the same time.
        include: the file that `cpu_level_cmake` was written to.
    """
    _, arch, xnnpack = CPU_LEVELS[level]
    variables = FLAGS | {"USE_XNNPACK": xnnpack} | BLAS[blas]
    if arch:
        variables |= {"CFLAGS": arch, "CXXFLAGS": arch}
    return variables | {
        "PYTORCH_BUILD_VERSION": version,
        "TORCH_CUDA_ARCH_LIST": archs,
        "MAX_JOBS": str(jobs),
        "CMAKE_PROJECT_INCLUDE": include.as_posix(),
    }


def cpu_level_cmake(level: str) -> str:
    """The CMake code that leaves out the vector kernels above `level`."""
    kinds, _, _ = CPU_LEVELS[level]
    return "".join(LEFT_OUT.format(lang=lang, kind=kind) for kind in kinds for lang in ("C", "CXX"))


def max_jobs(memory: int, cpus: int) -> int:
    """How many compilers fit into `memory` bytes: one for each GB_PER_JOB, at least one."""
    return max(1, min(cpus, int(memory / 1e9 / GB_PER_JOB)))
