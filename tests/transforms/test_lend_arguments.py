"""`lend-arguments`: which operators may change an argument of the program itself.

Not a file of tests/filecheck/: the operators that AOTAutograd puts between values are none of ATen's.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuesta.context import make_context
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.pipeline import run_pipeline, stages_of
from cuesta.targets.reference import run

PIECES = """
kernel.func @double(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.add %a, %a : f32
  kernel.store %b, %o[%p] : f32
}
host.func @double_of(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  %o = host.alloc : tensor<4xf32>
  host.launch @double(%x, %o) : tensor<4xf32>, tensor<4xf32>
  host.return %o : tensor<4xf32>
}
host.func @view_of(%x : tensor<4xf32>) -> (tensor<2x2xf32>) {
  %v = host.reinterpret %x offset 0 : tensor<4xf32> to tensor<2x2xf32>
  host.return %v : tensor<2x2xf32>
}
"""
SIGNATURE = "host.func @main(%c : tensor<4xf32>, %d : tensor<4xf32>, %x : tensor<4xf32>) -> (TYPE) {"
TYPES = "(!host.object, tensor<4xf32>, tensor<4xf32>) -> !host.object"
TENSORS = "(tensor<4xf32>, tensor<4xf32>) -> !host.object"


@torch.library.custom_op("cuesta_test::add_to", mutates_args=("c",))
def add_to(c: Tensor, x: Tensor) -> None:
    c.add_(x)


def call(result: str, base: str, x: str = "%x") -> str:
    """The operator changes `base`; %RESULT is what that becomes."""
    return f"""
  %{result}_all = host.eager "higher_order.auto_functionalized_v2"(
    %op, x = {x}, _c_base_index = 0, _all_bases = [{base}]) : {TYPES}
  %{result}_one = host.eager "operator.getitem"(%{result}_all, 1) : (!host.object) -> !host.object
  %{result} = host.check "o" %{result}_one : !host.object to tensor<4xf32>"""


def program(*lines: str, returned: str = "%x : tensor<4xf32>") -> str:
    body = "\n  ".join(lines)
    kind = returned.partition(" : ")[2]
    head = SIGNATURE.replace("TYPE", kind)
    return f'{PIECES}{head}\n  %op = host.operator "cuesta_test.add_to.default"\n{body}\n  host.return {returned}\n}}'


DOUBLE = "%y = host.call @double_of(%c) : (tensor<4xf32>) -> (tensor<4xf32>)"
VIEW = "%v = host.call @view_of(%c) : (tensor<4xf32>) -> (tensor<2x2xf32>)"
COPY = f'%k = host.eager "aten.copy_.default"(%c, %n) : {TENSORS}'

LENT = {
    "alone": (1, program(call("n", "%c"), COPY)),
    "read before": (1, program(DOUBLE, call("n", "%c"), COPY, returned="%y : tensor<4xf32>")),
    "a view, read before": (1, program(VIEW, call("n", "%c"), COPY)),
    "one after the other": (2, program(call("m", "%c"), call("n", "%m"), COPY)),
    "with what it held before": (1, program(DOUBLE, call("n", "%c", x="%y"), COPY)),
}
CLONED = {
    "read afterwards": program(call("n", "%c"), DOUBLE, COPY, returned="%y : tensor<4xf32>"),
    "a view that the caller gets": program(VIEW, call("n", "%c"), COPY, returned="%v : tensor<2x2xf32>"),
    "the result, which the caller gets": program(call("n", "%c"), COPY, returned="%n : tensor<4xf32>"),
    "a result on the way, which is read": program(
        call("m", "%c"), call("n", "%m"), DOUBLE.replace("%c", "%m"), COPY, returned="%y : tensor<4xf32>"
    ),
    "another argument gets it": program(call("n", "%c"), COPY.replace("%c", "%d")),
    "the argument twice": program(call("n", "%c", x="%c"), COPY),
    "something else in the end": program(
        call("m", "%c"), DOUBLE.replace("%c", "%m"), COPY.replace("%n", "%y"), returned="%x : tensor<4xf32>"
    ),
}


def outcome(text: str) -> tuple[str, list[object]]:
    """The text after the pass, and what it gives; with what the arguments hold afterwards, that is as before."""
    module = CuestaParser(make_context(), text, "<test>").parse_module()
    module.verify()
    before = [torch.arange(4.0) + k for k in range(3)]
    after = [one.clone() for one in before]
    expected = run(module, before)
    run_pipeline(make_context(), module, stages_of("lend-arguments"), verify_each=True)
    found = run(module, after)
    torch.testing.assert_close((found, after), (expected, before), rtol=0, atol=0)
    return print_text(module), found


@pytest.mark.parametrize("name", LENT)
def test_lent(name: str) -> None:
    count, text = LENT[name]
    assert outcome(text)[0].count("_only_clone_these_bases = []") == count


@pytest.mark.parametrize("name", CLONED)
def test_near_misses(name: str) -> None:
    assert "_only_clone_these_bases" not in outcome(CLONED[name])[0]
