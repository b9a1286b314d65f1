"""A child process that compiles Triton kernels ahead of time: JSON jobs in, JSON results out.

Started with PYTHONPATH at one Triton and at this package; needs neither torch nor a GPU. Each job
is compiled in a forked child where the system can fork, since LLVM may abort the process; where it
cannot, the parent sees the pipe close and starts another.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def main() -> int:
    """Answer one JSON line with one JSON line until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a compiler prints must not mix with the replies
    import triton

    _warm_up()
    print(json.dumps({"triton": triton.__version__}), file=replies, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        result = _forked(job) if hasattr(os, "fork") else _guarded(job)
        print(json.dumps(result), file=replies, flush=True)
    return 0


def _warm_up() -> None:
    """Hash Triton's own files once (it keys its cache by them), not in every forked child."""
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        key = getattr(importlib.import_module(module), "triton_key", None)
        if key:
            key()
            return


def _forked(job: Job) -> Job:
    read, write = os.pipe()
    with tempfile.TemporaryFile() as noise:
        child = os.fork()
        if child == 0:
            os.close(read)
            os.dup2(noise.fileno(), 2)
            os.write(write, json.dumps(_guarded(job)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        noise.seek(0)
        said = noise.read().decode(errors="replace")
    if answer:
        result: Job = json.loads(answer)
        return result
    return {"ok": False, "error": f"the compiler aborted (wait status {status}): {_reason(said)}"}


def _guarded(job: Job) -> Job:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        try:
            return _compiled(job, Path(cache))
        except Exception as error:
            return {"ok": False, "error": f"{type(error).__name__}: {_reason(str(error))}"}


_TELLING = re.compile(r"error|assert|fatal|requires|not supported|undefined|LLVM|refused", re.I)


def _reason(text: str) -> str:
    """The line of a compiler's output that names the reason, at most 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines[-1:]
    return (telling[0] if telling else "no message")[:300]


def _compiled(job: Job, work: Path) -> Job:
    import triton
    from triton.backends.compiler import GPUTarget

    options = {"num_warps": job["num_warps"], "num_stages": job["num_stages"], **job["options"]}
    target = GPUTarget("cuda", job["capability"], 32)
    kernel = triton.compile(_source(job), target=target, options=options)
    ptx: str = kernel.asm["ptx"]
    result = _assembled(ptx, job["capability"], work)
    return {
        "ok": True,
        "shared": kernel.metadata.shared,
        "cubin": len(kernel.asm["cubin"]),
        "ptx": ptx,
        **result,
    }


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
    return ASTSource(function, signature=signature, constexprs=job["constants"], attrs=attributes)


# Sizes that the launches keep at multiples of 16, as the JIT would find out by itself.
_MULTIPLES = {"n", "rows", "columns", "M", "N", "K", "T"}


def _aligned(names: list[str], job: Job) -> list[int]:
    kinds = enumerate(zip(names, job["types"], strict=False))
    return [i for i, (name, kind) in kinds if kind[0] == "*" or name in _MULTIPLES]


def _assembled(ptx: str, capability: int, work: Path) -> Job:
    """Registers and spilled bytes, from Triton's own ptxas in its verbose mode."""
    import triton

    source = work / "kernel.ptx"
    source.write_text(ptx, encoding="utf-8", newline="\n")
    target = re.search(r"^\.target (\w+)", ptx, re.M)
    name = target[1] if target else f"sm_{capability}"
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    command = [ptxas(tools, ptx), "-v", f"--gpu-name={name}", str(source), "-o", str(work / "c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(said)
    return {"target": name, "ptx_version": _find(r"^\.version (\S+)", ptx), **usage(said)}


def ptxas(tools: Path, ptx: str) -> str:
    """The bundled assembler for this PTX: Linux wheels have a second one for Blackwell's."""
    version = _find(r"^\.version (\S+)", ptx)
    newer = tools / "ptxas-blackwell"
    if newer.is_file() and tuple(map(int, version.split("."))) > (8, 8):
        return str(newer)
    return str(tools / ("ptxas.exe" if os.name == "nt" else "ptxas"))


def usage(said: str) -> dict[str, int]:
    """Registers a thread, spilled bytes (stores and loads) and stack bytes in `ptxas -v` text."""
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    stack = re.search(r"(\d+) bytes stack frame", said)
    used = re.search(r"Used (\d+) registers", said)
    return {
        "registers": int(used[1]) if used else 0,
        "spills": int(spills[1]) + int(spills[2]) if spills else 0,
        "stack": int(stack[1]) if stack else 0,
    }


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.M)
    return found[1] if found else ""


if __name__ == "__main__":
    sys.exit(main())
