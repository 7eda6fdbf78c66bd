"""Operators of `torch.library` that do what their schema denies: with `checks="calls"` that is an error with a name.

What gives another tensor than its fake promised is an error always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._functorch import config as capture_config

import cuesta
from cuesta.targets.host.promised_calls import check_call, copies_of

pytestmark = pytest.mark.slow

LIES: dict[str, tuple[str, Callable[..., Any]]] = {
    "changes": ("(Tensor a, Tensor b) -> Tensor", lambda a, b: b.mul_(2) + a),
    "aliases": ("(Tensor a, Tensor b) -> Tensor", lambda a, b: a),
    "views": ("(Tensor a, Tensor b) -> (Tensor, Tensor)", lambda a, b: (b + 1, a.view(-1).view(a.shape))),
    "is_nowhere": ("(Tensor a, Tensor b) -> Tensor", lambda a, b: torch.empty_like(a, device="meta")),
    "is_nowhere_too": ("(Tensor a, Tensor b) -> (Tensor, Tensor)", lambda a, b: (a + b, a.to("meta"))),
    "is_nothing": ("(Tensor a, Tensor b) -> Tensor", lambda a, b: None),
    "honest": ("(Tensor a, Tensor b) -> Tensor", lambda a, b: a + b),
}


@pytest.fixture(autouse=True)
def library() -> Iterator[None]:
    torch._dynamo.reset()
    cuesta.clear_records()
    # PyTorch has a check of its own for some of these lies, which is an error where CI is set. Ours is tested here.
    without_theirs = capture_config.patch(check_custom_op_aliasing=False)
    with without_theirs, torch.library._scoped_library("lying", "FRAGMENT") as found:
        for name, (schema, function) in LIES.items():
            found.define(name + schema)
            found.impl(name, function, "CompositeExplicitAutograd")
            results = schema.count("Tensor") - 2
            fake = (lambda a, b: torch.empty_like(a)) if results == 1 else (lambda a, b: (torch.empty_like(a),) * 2)
            torch.library.register_fake(f"lying::{name}", fake, lib=found)
        yield


def compiled(name: str, **options: Any) -> Callable[[Tensor, Tensor], Tensor]:
    def function(a: Tensor, b: Tensor) -> Tensor:
        result = getattr(torch.ops.lying, name)(a * 2, b)
        return (result[1] if isinstance(result, tuple) else result) + 1

    return torch.compile(function, backend="cuesta", options={"cache": False, **options})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("changes", r"lying::changes\.default changed tensor 1 of those it is given, which its schema denies"),
        ("aliases", r"lying::aliases\.default gave as result 0 memory of a tensor that it is given, which its schema"),
        (
            "views",
            r"lying::views\.default gave as result \d memory of a tensor that it is given, which its schema denies",
        ),
    ],
)
def test_a_lie_is_named(name: str, message: str) -> None:
    a, b = torch.randn(2, 3, 4)
    a[0, 0] = torch.nan
    with pytest.raises(RuntimeError, match=message):
        compiled(name, checks="calls")(a, b)


@pytest.mark.parametrize("name", ["is_nowhere", "is_nowhere_too", "is_nothing"])
def test_a_result_that_has_no_memory_is_named(name: str) -> None:
    said = (
        "no tensor but a NoneType" if name == "is_nothing" else r"a tensor of torch.float32 and size \(3, 4\) on meta"
    )
    a, b = torch.randn(2, 3, 4)
    with pytest.raises(RuntimeError, match=rf"lying::{name}\.default gave {said}, but its fake .* promised .* on cpu"):
        compiled(name)(a, b)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("sizes", [(3, 4), (0, 4), ()])
def test_the_truth_passes(sizes: tuple[int, ...], inference: bool) -> None:
    with torch.inference_mode(inference):
        a, b = torch.randn(2, *sizes)
        a.masked_fill_(a > 1, torch.nan)
        result = compiled("honest", checks="calls")(a, b)
        torch.testing.assert_close(result, a * 2 + b + 1, equal_nan=True)
    assert cuesta.records[-1].fallbacks == {"lying::honest.default": 1}


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.int8, torch.float64, torch.complex64])
def test_bits_are_compared_in_every_dtype(dtype: torch.dtype) -> None:
    x = torch.randn(4, 3).to(dtype).t()
    same = copies_of(x)
    check_call(same, (x,), (x.clone(),), "lying::honest.default")
    x[0, 0] = not x[0, 0] if dtype is torch.bool else x[0, 0] + 1
    with pytest.raises(RuntimeError, match="changed tensor 0"):
        check_call(same, (x,), (), "lying::honest.default")


def test_nothing_is_asked_otherwise(tmp_path: Any) -> None:
    a, b = torch.randn(2, 3, 4)
    compiled("honest", dump=str(tmp_path))(a, b)
    (wrapper,) = tmp_path.glob("*/wrapper.py")
    assert "check_metadata(" in wrapper.read_text() and "check_call" not in wrapper.read_text()


def test_a_program_from_a_text_is_held_to_it(tmp_path: Any) -> None:
    a, b = torch.randn(2, 3, 4)
    compiled("aliases", dump=str(tmp_path))(a, b)
    (text,) = tmp_path.glob("*/*_fuse-nests.mlir")
    with pytest.raises(RuntimeError, match=r"\.py:\d+|mlir:\d+") as caught:
        cuesta.load(text)(a, b)
    assert "lying::aliases.default gave as result 0 memory" in str(caught.value)
    cuesta.load(text, options={"checks": "off"})(a, b)
