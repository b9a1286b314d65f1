"""Reference kernels: Triton, CUDA C++ and torch.compile, each with a float64 reference and cost.

The `triton_*` modules import triton alone and compile without torch or a GPU; `catalogue` and
`tuning` are data for the standard library; `operations` and `references` need torch.
"""
