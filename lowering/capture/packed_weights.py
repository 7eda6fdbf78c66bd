"""Weights of 4 bits as eager packs them for a CPU, read as they lie: `_weight_int4pack_mm_for_cpu`.

    out[m, n] = Σ_k x[m, k] · ((q[n, k] − 8) · s[k div g, n] + z[k div g, n])

`_convert_weight_to_int4pack_for_cpu` lays a matrix q of n by k numbers out in blocks of 64 columns n (32 for AVX2); of
each k a block has 32 bytes (16), whose low halves are its first columns, and whose high halves are the others:

    q[64·b + 32·h + l, k] = half h of byte 32·k + l of block b

A sum of products then has the columns of a block as lanes, which are neighbours in memory; s and z are taken out of the
sum of a group of g points. Many rows have the matrix made once, and a library's product.

Only f32, for which eager has no vectors: 4096 by 4096 for one row took 143 ms, ours 1.3 (one thread of two, beside two
others, processor time). Of bf16 eager's kernel took 0.70 of the time of ours, and stays. The layout for CUDA is that of
registers of one instruction, and no nest's.

Source: the layout: packed on this machine, with `ATEN_CPU_CAPABILITY` of AVX512 and AVX2, and read back; a matrix whose
columns are no whole blocks, and machines with neither, stay eager's. The arithmetic: the documentation of torchao's
`Int4CPULayout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

COLUMNS = {"AVX512": 64, "AVX2": 32}
"""The columns of a block, by what torch's kernels are for.

Source: as of the layout, above.
"""
MOST_ROWS = 4
"""The most rows that read the matrix as it lies, each for itself.

Source: a choice: as `nest_row_products.MOST_ROWS`; not timed.
"""


def int4pack_mm_for_cpu(self: Tensor, mat2: Tensor, group: int, scales_and_zeros: Tensor) -> Tensor:
    """The product; NotImplemented for what stays eager's, its errors among it.

    Shapes: x (m, k), packed (n, k / 2), scales and zeros (k / g, n, 2).
    """
    import torch

    block = COLUMNS.get(torch.backends.cpu.get_cpu_capability(), 0)
    x, packed = self, mat2
    if block == 0 or not _fits(x, packed, group, scales_and_zeros, block):
        return NotImplemented
    rows, points = x.shape
    few = type(rows) is int and rows <= MOST_ROWS  # else a symbol
    columns, groups, half = packed.shape[0], points // group, block // 2
    blocks = columns // block
    # By block, group, point of it, byte; by block, group, half, byte.
    bytes_of = packed.reshape(blocks, groups, group, half)
    parts = scales_and_zeros.reshape(groups, blocks, 2, half, 2).transpose(0, 1)
    scale, zero = parts[..., 0], parts[..., 1]
    numbers = ((bytes_of & 15).to(torch.int8) - 8, (bytes_of >> 4).to(torch.int8) - 8)
    if not few:
        halves = [
            one.to(x.dtype) * scale[:, :, None, k] + zero[:, :, None, k] for k, one in enumerate(numbers)
        ]  # (block, group, point, byte)
        matrix = torch.stack(halves, 3).reshape(blocks, points, block).transpose(0, 1).reshape(points, columns)
        return x @ matrix
    by_group = x.reshape(rows, 1, groups, group, 1)
    whole = by_group.sum(3)  # of x in a group: what its zero is multiplied by
    sums = [
        ((by_group * one.to(x.dtype)).sum(3) * scale[:, :, k] + whole * zero[:, :, k]).sum(2)
        for k, one in enumerate(numbers)
    ]
    return torch.stack(sums, 2).reshape(rows, columns)


def _fits(x: Tensor, packed: Tensor, group: int, scales_and_zeros: Tensor, block: int) -> bool:
    """Whether these are what eager's kernel for f32 takes, of whole blocks."""
    import torch

    tensors: tuple[Any, ...] = (x, packed, scales_and_zeros)
    if any(one.device.type != "cpu" for one in tensors) or (x.dim(), packed.dim(), scales_and_zeros.dim()) != (2, 2, 3):
        return False
    if (x.dtype, packed.dtype, scales_and_zeros.dtype) != (torch.float32, torch.uint8, torch.float32):
        return False
    sizes = (*packed.shape, x.shape[1], *scales_and_zeros.shape)
    if any(type(size) is not int for size in sizes) or not packed.is_contiguous():
        return False
    (columns, half), points = packed.shape, x.shape[1]
    return (
        group in (32, 64, 128, 256)
        and 2 * half == points
        and points > 0 == points % group
        and columns > 0 == columns % block
        and tuple(scales_and_zeros.shape) == (points // group, columns, 2)
    )


__all__ = ["int4pack_mm_for_cpu"]
