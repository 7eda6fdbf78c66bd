"""The operators of the database that cannot be held to eager, each with its reason. Nothing else is left out."""

from __future__ import annotations

from typing import Final

_CUDA_ONLY: Final = "eager refuses it on the CPU: Jiterator compiles for CUDA"
_SPARSE_CSR: Final = "PyTorch's fake tensors know no compressed sparse layout, so that nothing can be traced"

SKIPPED: Final[dict[str, str]] = {
    "jiterator_unary": _CUDA_ONLY,
    "jiterator_binary": _CUDA_ONLY,
    "jiterator_binary_return_by_ref": _CUDA_ONLY,
    "jiterator_4inputs_with_extra_args": _CUDA_ONLY,
    "jiterator_2inputs_2outputs": _CUDA_ONLY,
    "sparse.sampled_addmm": _SPARSE_CSR,
    "sparse.mm.reduce": _SPARSE_CSR,
}
"""Operators that are not run at all, by full name."""

_SHORT_SERIES: Final = "eager's trigamma has ten digits in float64, where eager is the truth; ours has all of them"

_BESSEL: Final = "eager's J and Y are off by 5e-7 from 5 on, in float64, too, where eager is the truth; ours are not"

UNCOMPARED: Final[dict[tuple[str, str], str]] = {
    **{
        (f"special.bessel_{name}", dtype): _BESSEL
        for name in ("j0", "j1", "y0", "y1")
        for dtype in ("float64", "float32", "int64", "int32", "uint8", "bool")
    },
    **{(f"polygamma.polygamma_n_{order}", "float64"): _SHORT_SERIES for order in range(5)},
    ("special.polygamma.special_polygamma_n_0", "float64"): _SHORT_SERIES,
    ("digamma", "float64"): _SHORT_SERIES + ", also in digamma's derivative",
    ("nn.functional.hardsigmoid", "float64"): "eager's slope is 1/6 as a float32, and in float64 eager is the truth",
}
"""Operators of which, in one dtype, only what the results look like is compared."""

WITH_DYNAMO: Final[dict[str, str]] = {
    "to_sparse": "AOTAutograd on its own forgets that a sparse result requires gradients; Dynamo calls eager",
}
"""Operators for which all of `torch.compile` is run, by full name."""

UNINITIALIZED: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
"""Operators whose result may hold anything: only what it looks like is compared."""
