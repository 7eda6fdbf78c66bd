"""What torch's settings let products and convolutions of f32 be rounded to, said in its older and its newer way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from cuesta.caching.key import settings_lines
from cuesta.options import Options
from cuesta.precisions import tf32_of_convolutions, tf32_of_products
from cuesta.staging import stages_for
from tests.support.triton_interpreter import parse

CONVOLUTIONS: Any = getattr(torch.backends.cudnn, "conv")  # noqa: B009 # the type checker does not know it


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    products, convolutions = torch.backends.cuda.matmul.fp32_precision, CONVOLUTIONS.fp32_precision
    yield
    torch.backends.cuda.matmul.fp32_precision = products
    CONVOLUTIONS.fp32_precision = convolutions


def choose_products() -> str:
    """The stage as the options of a compilation have it."""
    program = parse(
        "func.func @main(%x : tensor<2xf32>) -> tensor<2xf32> {"
        '%y = aten.call "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n func.return %y : tensor<2xf32> }'
    )
    return next(one.name for one in stages_for(program, Options()) if one.label == "choose-products")


def test_the_older_way() -> None:
    torch.set_float32_matmul_precision("highest")
    assert not tf32_of_products() and choose_products() == "choose-products"
    torch.set_float32_matmul_precision("high")
    assert tf32_of_products()
    torch.set_float32_matmul_precision("highest")
    assert not tf32_of_products()


def test_the_newer_way_which_an_older_question_does_not_survive() -> None:
    torch.set_float32_matmul_precision("highest")
    CONVOLUTIONS.fp32_precision = "tf32"
    assert tf32_of_convolutions() and choose_products() == "choose-products"
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
        torch.get_float32_matmul_precision()
    assert choose_products() == "choose-products{tf32=true tf32_convolutions=true}"
    before = settings_lines("inference", Options())
    CONVOLUTIONS.fp32_precision = "ieee"
    assert not tf32_of_convolutions() and choose_products() == "choose-products{tf32=true}"
    assert settings_lines("inference", Options()) != before


def test_a_program_is_compiled_whatever_was_set() -> None:
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    x = torch.randn(3, 3)
    torch.testing.assert_close(torch.compile(lambda x: x @ x + 1, backend="cuesta")(x), x @ x + 1)
