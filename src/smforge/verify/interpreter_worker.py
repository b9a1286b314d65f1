"""The child that runs Triton kernels on CPU tensors through Triton's interpreter.

For logic, not for numbers: the interpreter multiplies bf16 by its bit patterns and drops a carry
when it rounds to fp8, so only fp32 and fp16 cases are asked for. Needs torch and numpy.
"""

from __future__ import annotations

import os
import sys

from smforge.verify.worker import Job, serve

DTYPES = ("fp32", "fp16", "tf32")


def main() -> int:
    """Check until standard input ends."""
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are decorated
    import torch
    import triton

    from smforge.kernels.catalogue import CASES
    from smforge.kernels.operations import operation
    from smforge.verify.checking import check

    major, minor = triton.__version__.split(".")[:2]
    torch.set_num_threads(1)

    def handle(job: Job) -> Job:
        op = operation(CASES[job["case"]], (8, 0), (int(major), int(minor)))
        generator = torch.Generator("cpu")
        generator.seed()
        config = op.configs()[0]
        verdicts = [check(op, size, config, generator) for size in op.check_sizes]
        problems = [verdict.problem for verdict in verdicts if verdict.problem]
        if problems:
            return {"ok": False, "error": problems[0]}
        return {"ok": True, "worst": max(verdict.error for verdict in verdicts)}

    return serve({"version": triton.__version__}, handle)


if __name__ == "__main__":
    sys.exit(main())
