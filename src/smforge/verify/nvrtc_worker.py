"""The child that compiles CUDA C++; SMFORGE_NVRTC names the folder of one NVRTC's packages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from smforge.errors import ToolchainError
from smforge.kernels.nvrtc import Nvrtc, find_headers, find_library
from smforge.verify.ptxas import usage
from smforge.verify.worker import Job, serve


def main() -> int:
    """Compile until standard input ends."""
    root = Path(os.environ["SMFORGE_NVRTC"]) / "nvidia"
    library = find_library([root / "cuda_nvrtc" / name for name in ("lib", "bin")])
    if library is None:
        raise ToolchainError(f"no NVRTC library below {root}")
    nvrtc = Nvrtc(library)
    headers = find_headers(sorted(root.glob("*/include")))
    version = f"{nvrtc.version[0]}.{nvrtc.version[1]}"

    def handle(job: Job) -> Job:
        made = nvrtc.compile(Path(job["source"]), job["capability"], headers)
        found = usage(made.log)
        return {"ok": True, "ptx": made.ptx, "cubin": len(made.cubin), **found}

    return serve({"version": version}, handle)


if __name__ == "__main__":
    sys.exit(main())
