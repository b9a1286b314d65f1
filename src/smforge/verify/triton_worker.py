"""The child that compiles Triton kernels ahead of time, for any architecture.

Started with PYTHONPATH at one Triton and at this package; needs neither torch nor a GPU.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from smforge.verify.ptxas import assemble
from smforge.verify.worker import Job, serve


def main() -> int:
    """Compile until standard input ends."""
    import triton

    _warm_up()
    return serve({"version": triton.__version__}, _compiled)


def _warm_up() -> None:
    """Hash Triton's own files once (it keys its cache by them), not in every forked child."""
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        key = getattr(importlib.import_module(module), "triton_key", None)
        if key:
            key()
            return


def _compiled(job: Job) -> Job:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        return _compiled_in(job, Path(cache))


def _compiled_in(job: Job, work: Path) -> Job:
    import triton
    from triton.backends.compiler import GPUTarget

    options = {"num_warps": job["num_warps"], "num_stages": job["num_stages"]}
    if "ptx_version" in job:  # for an assembler that is older than this Triton's newest
        options["ptx_version"] = job["ptx_version"]
    target = GPUTarget("cuda", job["capability"], 32)
    kernel = triton.compile(_source(job), target=target, options=options)
    ptx: str = kernel.asm["ptx"]
    result = _assembled(ptx, job["capability"], work)
    sizes = {"shared": kernel.metadata.shared, "cubin": len(kernel.asm["cubin"])}
    return {"ok": True, "ptx": ptx, **result, **sizes}


def _source(job: Job) -> Any:
    import triton
    from triton.compiler import ASTSource

    function = getattr(importlib.import_module(job["module"]), job["function"])
    names = function.arg_names
    signature = dict(zip(names, job["types"], strict=False))
    aligned = _aligned(names, job)
    if tuple(map(int, triton.__version__.split(".")[:2])) <= (3, 2):
        from triton.backends.compiler import AttrsDescriptor

        hints = AttrsDescriptor.from_hints(dict.fromkeys(aligned, 16))
        return ASTSource(function, signature=signature, constants=job["constants"], attrs=hints)
    signature.update(dict.fromkeys(job["constants"], "constexpr"))
    attributes = {(index,): [["tt.divisibility", 16]] for index in aligned}
    source = ASTSource
    if function.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource as source  # type: ignore
    return source(function, signature=signature, constexprs=job["constants"], attrs=attributes)


# Sizes that the launches keep at multiples of 16, as the JIT would find out by itself.
_MULTIPLES = {"n", "rows", "columns", "M", "N", "K", "T"}


def _aligned(names: list[str], job: Job) -> list[int]:
    kinds = enumerate(zip(names, job["types"], strict=False))
    return [i for i, (name, kind) in kinds if kind[0] == "*" or name in _MULTIPLES]


def _assembled(ptx: str, capability: int, work: Path) -> Job:
    """Registers and spilled bytes, from Triton's own ptxas in its verbose mode."""
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    return assemble(tools, ptx, capability, work)


if __name__ == "__main__":
    sys.exit(main())
