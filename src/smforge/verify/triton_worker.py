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
    _assemble_once()
    return serve({"version": triton.__version__}, _compiled)


def _warm_up() -> None:
    """Do once what every forked child would do again before it compiles."""
    importlib.import_module("triton.compiler.code_generator")  # with all of Gluon, since 3.4
    # The key of Triton's cache is a hash of its own 400 MB; here each job's cache is its own.
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):
        module: Any = importlib.import_module(name)
        if hasattr(module, "triton_key"):
            module.triton_key = lambda: "smforge"


def _assemble_once() -> None:
    """Put `_cubin` in the place of Triton's last stage, which drops what its ptxas says."""
    from triton.backends import backends

    compiler = backends["nvidia"].compiler  # up to 3.2 not the class that an import would find
    add_stages = compiler.add_stages

    def add(backend: Any, stages: dict[str, Any], *rest: Any) -> None:
        add_stages(backend, stages, *rest)
        stages["cubin"] = _cubin

    compiler.add_stages = add


def _cubin(ptx: str, metadata: dict[str, Any]) -> bytes:
    """The machine code; the assembler's figures go with the kernel, as its other metadata do."""
    work = Path(os.environ["TRITON_CACHE_DIR"])
    metadata["assembled"] = _assembled(ptx, metadata["target"].arch, work)
    return (work / "c").read_bytes()


def _compiled(job: Job) -> Job:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        return _kernel(job)


def _kernel(job: Job) -> Job:
    import triton
    from triton.backends.compiler import GPUTarget

    options = {"num_warps": job["num_warps"], "num_stages": job["num_stages"]}
    if "ptx_version" in job:  # for an assembler that is older than this Triton's newest
        options["ptx_version"] = job["ptx_version"]
    target = GPUTarget("cuda", job["capability"], 32)
    kernel = triton.compile(_source(job), target=target, options=options)
    sizes = {"shared": kernel.metadata.shared, "cubin": len(kernel.asm["cubin"])}
    return {"ok": True, "ptx": kernel.asm["ptx"], **kernel.metadata.assembled, **sizes}


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
