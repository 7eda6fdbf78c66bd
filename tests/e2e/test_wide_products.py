"""Products and convolutions of 16-bit floats that are made of f32 on the CPU: `widen-products`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from cuesta.targets.cpu import facts
from cuesta.testing import assert_close_to_float64

DTYPES = [torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever processor, as on one whose library has no kernels for such numbers."""
    monkeypatch.setattr(facts, "facts_of_wide_products", lambda: {"wide_bf16": 6.0, "wide_f16": 6.0})
    monkeypatch.setattr(facts, "facts_of_products", dict)
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()


def compiled_of(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="cuesta", fullgraph=True, **settings)


def types_called(folder: Path) -> dict[str, set[str]]:
    """Of each library call of what was dumped, the types of the elements that it takes and gives."""
    found: dict[str, set[str]] = {}
    for text in folder.glob("*/*_kernel-to-host.mlir"):
        for line in text.read_text(encoding="utf-8").splitlines():
            if call := re.search(r'host\.extern .*"aten\.(\w+)\.', line):
                found.setdefault(call[1], set()).update(re.findall(r"tensor<(?:\w+x)*(b?f\d+)", line))
    return found


def images(*sizes: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(sizes).to(dtype)


def grouped(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, groups=2, padding=1)


def transposed(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose2d(x, w, stride=2)


FORMS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((33, 70), (70, 45))),
    "layer": (F.linear, ((33, 70), (45, 70), (45,))),
    "batches": (torch.bmm, ((3, 33, 70), (3, 70, 45))),
    "added to batches": (torch.baddbmm, ((3, 33, 45), (3, 33, 70), (3, 70, 45))),
    "scaled": (lambda b, x, w: torch.addmm(b, x, w, alpha=0.5, beta=2), ((45,), (33, 70), (70, 45))),
    "accumulated": (lambda a, b, c, d: a @ b + c @ d, ((33, 70), (70, 45), (33, 20), (20, 45))),
    "one after the other": (lambda x, v, w: x @ v @ w, ((33, 70), (70, 45), (45, 20))),
    "expanded": (lambda x, w: torch.bmm(x.expand(3, -1, -1), w), ((33, 70), (3, 70, 45))),
    "convolution": (F.conv2d, ((2, 8, 9, 9), (16, 8, 3, 3), (16,))),
    "grouped": (grouped, ((2, 8, 9, 9), (16, 4, 3, 3))),
    "transposed": (transposed, ((2, 8, 9, 9), (8, 16, 3, 3))),
    "of one dimension": (F.conv1d, ((2, 8, 40), (16, 8, 5), (16,))),
    "of three": (F.conv3d, ((2, 8, 5, 6, 7), (16, 8, 3, 3, 3), (16,))),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.covering
def test_it_is_as_near_to_the_truth_as_eager_and_so_are_gradients(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    function, sizes = FORMS[name]
    inputs = [images(*one, dtype=dtype).requires_grad_() for one in sizes]
    assert_close_to_float64(compiled_of(function, options={"dump": str(tmp_path)}), function, inputs)
    found = types_called(tmp_path)
    assert found and all(types == {"f32"} for types in found.values()), found


def test_what_lies_channels_last_stays_so() -> None:
    for sizes, kernel in (((2, 8, 9, 9), (16, 8, 3, 3)), ((2, 8, 5, 6, 7), (16, 8, 3, 3, 3))):
        torch._dynamo.reset()
        convolve = F.conv2d if len(sizes) == 4 else F.conv3d
        x = images(*sizes, dtype=torch.bfloat16).movedim(1, -1).contiguous().movedim(-1, 1)
        w = images(*kernel, dtype=torch.bfloat16)
        ours, eagers = compiled_of(convolve)(x, w), convolve(x, w)
        assert ours.stride() == eagers.stride()
        assert_close_to_float64(compiled_of(convolve), convolve, [x, w])


def test_sizes_that_only_the_call_knows() -> None:
    compiled = compiled_of(torch.mm, dynamic=True)
    for rows, points, columns in ((33, 70, 45), (5, 9, 200), (0, 9, 7), (1, 2, 3)):
        a, b = images(rows, points, dtype=torch.float16), images(points, columns, dtype=torch.float16)
        assert_close_to_float64(compiled, torch.mm, [a, b])


def test_few_rows_stay_narrow(tmp_path: Path) -> None:
    for rows in (2, 64):
        torch._dynamo.reset()
        x, w = images(rows, 512, dtype=torch.bfloat16), images(512, 300, dtype=torch.bfloat16)
        compiled = compiled_of(torch.mm, options={"dump": str(tmp_path / str(rows))})
        assert_close_to_float64(compiled, torch.mm, [x, w])
    assert types_called(tmp_path / "2").get("mm", {"bf16"}) == {"bf16"}
    assert types_called(tmp_path / "64")["mm"] == {"f32"}


def test_as_in_eager_where_casts_are_to_be_eagers() -> None:
    x, w = images(64, 64, dtype=torch.bfloat16), images(64, 64, dtype=torch.bfloat16)
    compiled = compiled_of(torch.mm, options={"emulate_precision_casts": True})
    assert torch.equal(compiled(x, w), x @ w)


def test_the_fact_is_what_torch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = facts.facts_of_wide_products()
    narrow = {"wide_bf16": "_is_mkldnn_bf16_supported", "wide_f16": "_is_mkldnn_fp16_supported"}
    assert found.keys() == {name for name, asked in narrow.items() if not getattr(torch.ops.mkldnn, asked)()}
    with torch.backends.mkldnn.flags(enabled=False):
        assert facts.facts_of_wide_products().keys() == narrow.keys()
