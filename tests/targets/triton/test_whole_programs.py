"""Programs that have all of their points do without masks: in the text, and with the right results at the ends."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuesta.testing import assert_close_to_float64
from cuesta.transforms.reductions import when
from cuesta.transforms.tilings import cost
from tests.support.triton_interpreter import check, interpreted_cuda, on_cuda, parse
from tests.support.triton_kernels import assert_compiles, split_whatever_the_sizes, texts_of

pytestmark = pytest.mark.slow


def texts_and_result(function: Callable[..., Tensor], *inputs: Tensor, dynamic: bool = False) -> list[str]:
    """The kernels' texts; what they give is close to what is right."""
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=dynamic)
    with interpreted_cuda() as programs:
        assert_close_to_float64(compiled, function, list(inputs))
    texts = texts_of(programs[0])
    assert_compiles(texts)
    return [text.source for text in texts]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(5001,), (3, 1, 1667)])
def test_of_an_odd_size(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    (text,) = texts_and_result(lambda x, y: F.gelu(x) + y, torch.randn(sizes).to(dtype), torch.ones(1, dtype=dtype))
    whole, _, rest = text.partition("else:")
    assert re.search(r"if p \* (\d+) \+ \1 <= 5001:", whole)
    assert "mask" not in whole and "mask=mask" in rest


def test_of_a_size_that_the_call_knows() -> None:
    (text,) = texts_and_result(lambda x: x.sin() * 2, torch.randn(5003), dynamic=True)
    assert "if p * 1024 + 1024 <= s" in text


def test_with_a_second_store_and_a_loop() -> None:
    def function(x: Tensor) -> Tensor:
        return F.max_pool1d(x.reshape(1, 1, -1).exp(), 3, 3)

    texts = texts_and_result(function, torch.randn(3 * 2051 + 1))
    assert len(texts) == 1


@pytest.mark.parametrize("sizes", [(5000,), (1023,), (64, 1031)])
def test_near_misses(sizes: tuple[int, ...]) -> None:
    """A mask that is the same for all of a vector; one program only; rows that begin anywhere, which are taken as one
    axis whose size is even.
    """
    (text,) = texts_and_result(lambda x: x.sin(), torch.randn(sizes))
    assert "if " not in text


@pytest.mark.parametrize("function", [torch.sum, torch.argmin])
def test_of_parts(function: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    split_whatever_the_sizes(monkeypatch, meet=False)
    monkeypatch.setattr(when, "FEW_PROGRAMS", 1000)
    monkeypatch.setattr(cost, "LITTLE", 100.0)  # in the usual tile
    first, second = texts_and_result(lambda x: function(x), torch.randn(1003))
    whole, _, rest = first.partition("else:")
    assert "1003" in whole.partition("if ")[2] and "mask" not in whole and "mask=" in rest
    assert "if " not in second


def test_the_schedule_of_a_text_says_it() -> None:
    text = """
    func.func @main(%x : tensor<2051xf32>) -> tensor<2051xf32> {
      %y = loops.nest (%i : 2051) outs(%o : tensor<2051xf32>) schedule #loops.schedule<whole = WHOLE> {
        %a = loops.load %x[%i] : tensor<2051xf32>
        %b = elem.exp %a : f32
        loops.store %b, %o[%i] : tensor<2051xf32>
      }
      func.return %y : tensor<2051xf32>
    }"""
    for whole in (0, 1):
        module = on_cuda(parse(text.replace("WHOLE", str(whole))))
        (kernel,) = texts_of(module)
        assert ("else:" in kernel.source) == bool(whole)
        check(parse(text.replace("WHOLE", str(whole))))


@pytest.mark.parametrize("kind", ["sum", "last_argmax"])
def test_of_parts_of_a_scan(kind: str) -> None:
    """A program has one part, so that its number says whether all of the points are there."""
    second = kind == "last_argmax"
    text = f"""
    func.func @main(%x : tensor<5003xf32>) -> tensor<5003xf32> {{
      %y = loops.nest () outs(%o : tensor<5003xf32>) schedule #loops.schedule<part = 1024> {{
        loops.scan (%j : 5003) {{
          %a = loops.load %x[%j] : tensor<5003xf32>
          %r{", %t" if second else ""} = loops.running {kind} %a : f32
          loops.store %r, %o[%j] : tensor<5003xf32>
        }}
      }}
      func.return %y : tensor<5003xf32>
    }}"""
    totals, _, parts = texts_of(on_cuda(parse(text)))
    assert "scan" not in totals.source and "tl.cumsum" not in totals.source, "a total is a reduction"
    whole, _, rest = parts.source.partition("else:")
    assert "if p * 1024 + 1023 < 5003:" in whole
    assert "tl.load(x + p * 1024 + lanes)" in whole and "tl.load(x + p * 1024 + lanes_1, mask=" in rest
    check(parse(text))
