"""What this processor and its libraries can do, in the words of a machine (`dialects/core/machine.py`).

Whatever is asked of the process here is in the key of the cache: it is made of these facts.
"""

from __future__ import annotations

from cuesta.targets.cpu.features import has_dot, host_features

ONEDNN = 1.3
"""How many times as fast as MKL oneDNN multiplies matrices of f32 on an AMD processor with AVX-512. By its speed MKL
uses vectors of half that width there. (On a Xeon of 2023: 0.97.)

Source: 11 shapes of linear layers on two cores of an EPYC (Zen 4), calls in turns: 1.02 to 1.71, median 1.27.
"""
ONEDNN_CALL = 1.5e6
"""The additions and products that a thread does in 20 us, which a call of oneDNN takes longer than one of MKL.

Source: the 343 of 808 random products there that are smaller than 1e5, beside other processes: 20 to 23 us, medians.
"""

PRODUCTS = 1.38
"""The same of our own kernels (`nest-products`), without the copy that is made first.

Source: 34 products, one thread of an EPYC (Zen 4), in turns with MKL and oneDNN, docs/decisions/062.
"""


PRODUCTS_BF16 = 1.09
"""The same of bf16, the copy and the calls of both included.

Source: 12 products of 512 rows or more, one thread of an EPYC (Zen 4), programs with and without `nest-word-products`
in turns, beside other processes: 1.0 to 1.15 (256x256x256 1.25, 64x64x64 2.8), docs/decisions/066.
"""
PRODUCTS_I8 = 1.05
"""The same of int8, with sums of i32.

Source: as of PRODUCTS_BF16: 1.01 to 1.14 (256x256x256 1.10, 64x64x64 1.24).
"""


WIDE = 6.0
"""How many times as fast PyTorch multiplies matrices and convolves in f32, with the casts there and back, as in bf16 or
f16, where oneDNN has no kernels for them.

Source: one thread of an EPYC (Zen 3), torch 2.13, beside other processes: rows by the rows of a matrix 5.6 to 8.6 (512,
128 and 64 rows; 4 rows of 1024x1024 1.0 to 1.5, one row 0.6 to 0.8), by its columns 7 to 65, gradients of weights 4 to
16, batches of 64x64 13 to 16, convolutions 7 to 100, their gradients 2.5 to 9.
"""
_NARROW = {"wide_bf16": "_is_mkldnn_bf16_supported", "wide_f16": "_is_mkldnn_fp16_supported"}
"""By fact, what torch asks to know whether oneDNN has kernels for such numbers. (torch 2.11, 2.13)"""


def facts_of_wide_products() -> dict[str, float]:
    """How many times as fast the library that PyTorch calls is with f32 as with narrower floats, in the words of a
    machine; nothing where it has kernels for them.
    """
    import torch

    mkldnn = torch.backends.mkldnn
    if mkldnn.is_available() and mkldnn.enabled:
        return {name: WIDE for name, asked in _NARROW.items() if not getattr(torch.ops.mkldnn, asked)()}
    return dict.fromkeys(_NARROW, WIDE)


BYTES = 12.0
"""How many times as fast as PyTorch our kernels multiply matrices of int8 on an x86 processor without instructions for
them: it multiplies them one by one, and we add up shifted words.

Source: 6 products of 64 to 1024, one thread of an EPYC (Zen 3), torch 2.13, in turns, beside other processes: 13 to 22,
64x64x64 3.6.
"""


def _has_bytes() -> bool:
    """Whether the processor has some instruction that multiplies bytes and adds them up."""
    return any(host_features().has(name) for name in ("avx512f", "avxvnni", "avxvnniint8", "amx-int8"))


def facts_of_products() -> dict[str, float]:
    """How many times as fast as the library that PyTorch calls our kernels multiply matrices of f32, and of narrower
    numbers where the machine has the instructions; nothing where nobody measured it.
    """
    if host_features().has("avx2") and not _has_bytes():
        return {"products_i8": BYTES}
    if not host_features().has("avx512f", "sse4a"):
        return {}
    narrow = {"products_bf16": ("bf16", PRODUCTS_BF16), "products_i8": ("i8", PRODUCTS_I8)}
    return {"products": PRODUCTS, **{name: rate for name, (parts, rate) in narrow.items() if has_dot(parts)}}


def facts_of_onednn() -> dict[str, float]:
    """How many times as fast as the library that PyTorch calls oneDNN multiplies matrices of f32, and what a call of it
    costs more, in the words of a machine; nothing where nobody knows, or PyTorch is to do without it.
    """
    # `sse4a` exists on AMD only.
    if not host_features().has("avx512f", "sse4a"):
        return {}
    import torch

    mkldnn, mkl = torch.backends.mkldnn, torch.backends.mkl
    if not (mkldnn.is_available() and mkldnn.enabled and mkl.is_available()):
        return {}
    return {"onednn": ONEDNN, "onednn_call": ONEDNN_CALL * torch.get_num_threads()}


def facts() -> dict[str, int | float]:
    """The lanes of its vectors, and how fast its libraries are."""
    libraries = {**facts_of_products(), **facts_of_onednn(), **facts_of_wide_products()}
    return {"lanes": host_features().f32_lanes, **libraries}
