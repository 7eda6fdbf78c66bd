"""Into how many parts the rows of a product with a vocabulary are taken: by what that saves, and takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._subclasses import FakeTensorMode

from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.equal_nodes import merge_equal_nodes
from cuesta.lowering.capture.rows_in_parts import rows_in_parts

BF16, F32 = torch.bfloat16, torch.float32
PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.mm.dtype)


def loss(x: Tensor, weight: Tensor, target: Tensor) -> tuple[Tensor]:
    return (F.cross_entropy(F.linear(x, weight), target),)


def parts_of(tokens: int, width: int, vocabulary: int, dtype: torch.dtype, *, frozen: bool = False) -> int:
    """So often there is a product of each kind in the joint graph; of tensors without memory."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(tokens, width, dtype=dtype, requires_grad=True)
        weight = torch.empty(vocabulary, width, dtype=dtype, requires_grad=not frozen)
        target = torch.empty(tokens, dtype=torch.int64)
    graph: Any = aot_export_joint_simple(
        loss, (x, weight, target), trace_joint=True, decompositions=decomposition_table()
    )
    merge_equal_nodes(graph.graph)
    found = rows_in_parts(graph)
    products = sum(node.target in PRODUCTS for node in graph.graph.nodes)
    count, rest = divmod(products, 2 if frozen else 3)
    assert rest == 0 and found == (count > 1)
    return count


@pytest.mark.parametrize(
    ("sizes", "dtype", "frozen", "parts"),
    [
        ((8192, 2048, 128256), BF16, False, 8),  # 2 GiB, as ever
        ((4096, 768, 50257), BF16, False, 4),  # 392 MiB, of which the weight's sum in f32 is a third
        ((4096, 768, 50257), F32, False, 4),
        ((2048, 768, 50257), BF16, False, 1),  # 8 parts would save 180 MB, and take 1.8 times as long
        ((1024, 2048, 128256), BF16, False, 1),  # 250 MiB, and 1 GiB for the weight's sum
        ((1024, 2048, 128256), BF16, True, 1),  # each part reads the weight again, for few rows
        ((6144, 4096, 16384), BF16, True, 4),  # a weight without a gradient has no sum
        ((6144, 4096, 16384), BF16, False, 1),
        ((3072, 16384, 128256), BF16, False, 1),  # 750 MiB, and 8 GiB for the sum: it was taken apart
        ((256, 64, 50257), BF16, False, 1),  # 25 MiB
    ],
)
def test_parts_are_as_many_as_pay(sizes: tuple[int, int, int], dtype: torch.dtype, frozen: bool, parts: int) -> None:
    assert parts_of(*sizes, dtype, frozen=frozen) == parts
