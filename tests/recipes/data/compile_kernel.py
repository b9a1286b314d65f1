"""Compile a Triton kernel to a cubin for each architecture, with no GPU, on Triton 3.2 to 3.7.

python compile_kernel.py OUT 75 86      prints the version, writes OUT/<arch>.cubin
"""

import inspect
import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, K, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        left = tl.load(a + row[:, None] * K + k + row[None, :])
        right = tl.load(b + (k + row[:, None]) * BLOCK + row[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * BLOCK + row[None, :], total)


def source():
    """The kernel's source object; Triton 3.2 has other argument names than 3.3 and later."""
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"}
    if "constants" in inspect.signature(ASTSource.__init__).parameters:
        return ASTSource(matmul, signature, constants={"BLOCK": 32})
    return ASTSource(matmul, {**signature, "BLOCK": "constexpr"}, constexprs={(4,): 32})


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    for arch in map(int, sys.argv[2:]):
        compiled = triton.compile(source(), target=GPUTarget("cuda", arch, 32))
        (out / f"{arch}.cubin").write_bytes(compiled.asm["cubin"])
    print(triton.__version__, triton.__file__)
