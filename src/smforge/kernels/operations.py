"""Which class runs which case: the one table from a case's family to its operation."""

from __future__ import annotations

from smforge.kernels.catalogue import Case
from smforge.kernels.operation import Operation
from smforge.kernels.tuning import Capability


def operation(case: Case, capability: Capability, triton: tuple[int, int]) -> Operation:
    """The operation of a case for a card and a Triton; imports what it needs, no more."""
    if case.language == "triton":
        return _triton(case.family)(case, capability, triton)
    if case.language == "cuda":
        from smforge.kernels import cuda_operations

        return cuda_operations.FAMILIES[case.family](case, capability, triton)
    from smforge.kernels import compile_operations

    return compile_operations.FAMILIES[case.family](case, capability, triton)


def _triton(family: str) -> type[Operation]:
    from smforge.kernels import attention_operations as attention
    from smforge.kernels import elementwise_operations as elementwise
    from smforge.kernels import gemm_operations as gemm
    from smforge.kernels import rows_operations as rows

    families: dict[str, type[Operation]] = {
        "vector-add": elementwise.VectorAdd,
        "cast": elementwise.Cast,
        "softmax": rows.Softmax,
        "layer-norm": rows.LayerNorm,
        "layer-norm-backward": rows.LayerNormBackward,
        "gemm": gemm.Gemm,
        "attention": attention.Attention,
        "attention-backward": attention.AttentionBackward,
    }
    return families[family]
