"""The overloads that go to a library on purpose: nobody beats it there, or not yet. Everything else that stays a call
is a fallback.
"""

from __future__ import annotations

LIBRARY_CALLS = frozenset(
    {
        "aten.mm",
        "aten.addmm",
        "aten.addmm_",
        "aten.bmm",
        "aten.baddbmm",
        "aten.baddbmm_",
        "aten.addbmm",
        "aten.addmv",
        "aten._cdist_forward",
        "aten._cdist_backward",
        "aten._pdist_forward",
        "aten._pdist_backward",
        # Products of integers and of floats of 8 bits, and of groups of rows.
        "aten._int_mm",
        "aten._weight_int4pack_mm",
        "aten._weight_int4pack_mm_for_cpu",
        "aten._weight_int8pack_mm",
        "aten._scaled_mm",
        "aten._scaled_mm_v2",
        "aten._grouped_mm",
        "aten._scaled_grouped_mm",
        "mkldnn::_linear_pointwise",
        # On a CPU eager's were measured to be faster than nests, with what is around them fused, where
        # `embedding_bags.py` and `grid_sampling.py` say so.
        "aten._embedding_bag",
        "aten._embedding_bag_forward_only",
        "aten._embedding_bag_backward",
        "aten._embedding_bag_per_sample_weights_backward",
        "aten.grid_sampler_2d",
        "aten.grid_sampler_2d_backward",
        "aten.grid_sampler_3d",
        "aten.grid_sampler_3d_backward",
        "aten.convolution",
        "aten.convolution_backward",
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "aten._scaled_dot_product_flash_attention_for_cpu_backward",
        "aten._scaled_dot_product_flash_attention",
        "aten._scaled_dot_product_efficient_attention",
        "aten._scaled_dot_product_cudnn_attention",
        "aten.scaled_dot_product_attention",
        # It raises, and gives nothing.
        "aten._assert_async",
        # Other names for the memory of a complex tensor.
        "aten._conj",
        "aten.view_as_complex",
        "aten.view_as_real",
        "aten.sort",
        "aten.topk",
        "aten.kthvalue",
        "aten.median",
        "aten.nanmedian",
        "aten.mode",
        # Factorisations that are older than the name `linalg`.
        "aten.cholesky",
        "aten.cholesky_inverse",
        "aten.cholesky_solve",
        "aten.geqrf",
        "aten.lu_unpack",
        "aten.ormqr",
        "aten.triangular_solve",
        "aten._fft_r2c",
        "aten._fft_c2r",
        "aten._fft_c2c",
    }
)
"""By operator, without the overload."""


_FAMILIES = ("aten.linalg_", "aten._linalg_", "_c10d_functional::", "_dtensor::", "cuesta::")
"""Factorisations, communication between processes (DTensors' own: over NCCL, from one sharding to another), and what is
of our own (`dialects/core/random_words.py`).
"""


def is_library_call(overload: str) -> bool:
    """Whether a call of this overload (`aten.mm.default`) is meant to stay one."""
    return overload.rpartition(".")[0] in LIBRARY_CALLS or overload.startswith(_FAMILIES)
