"""Every op of `host`: its text comes back, in both forms, and each way to get it wrong has a message of its own."""

from __future__ import annotations

import pytest

from cuesta.dialects.host import EAGER_OPS, HOST
from tests.support.text import parse, refused, round_trip

WHOLE = """
kernel.func @copy(%x: !kernel.ptr<f32>) outs(%y: !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  %a = kernel.load %x[0] : f32
  kernel.store %a, %y[0] : f32
}
host.func @main(%x: tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, %n: !sym.int<s0>) -> (tensor<8xf32>, tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, !sym.int<s0 * 2>, !aten.literal) attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {
  %a = host.alloc : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
  %b = host.alloc : tensor<4x8xi1, #aten.layout<strides = [1, 4], device = "cuda:0">>
  %arena = host.alloc : tensor<256xui8>
  %p = host.place %arena at 64 : tensor<256xui8> to tensor<3xf64, #aten.layout<strides = [2]>>
  host.launch @copy(%x, %a) : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
  %v = host.reinterpret %a offset s0 * 8 - 8 : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>> to tensor<8xf32>
  %m = host.extern pure "aten.mul.Tensor"(%a, %a) : (tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>) -> tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
  host.free %a, %b : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, tensor<4x8xi1, #aten.layout<strides = [1, 4], device = "cuda:0">>
  host.free %x : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
  %two = sym.value : !sym.int<s0 * 2>
  %none = aten.literal none : !aten.literal
  host.return %v, %m, %two, %none : tensor<8xf32>, tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, !sym.int<s0 * 2>, !aten.literal
}
"""
EMPTY = """
host.func @main() -> () {
  host.return
}
"""


@pytest.mark.parametrize("text", [WHOLE, EMPTY])
def test_round_trip(text: str) -> None:
    round_trip(text)


def test_all_ops_are_here() -> None:
    """Those of graphs in pieces are in `test_eager.py`."""
    apart = {op.name for op in EAGER_OPS}
    assert {op.name for op in HOST.operations} - apart <= {op.name for op in parse(WHOLE).walk()}


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("%a = host.alloc : f32", "host.alloc makes a tensor, not f32"),
        ('"host.alloc"() : () -> ()', "host.alloc has 0 operands, 1 results"),
        ("host.launch @k() : ", "type expected"),
        ('"host.launch"() <{kernel = @k}> : () -> ()', "host.launch @k needs a buffer to write to"),
        ('"host.launch"(%x) : (tensor<4xf32>) -> ()', "host.launch needs the property `kernel`"),
        ("host.launch @k(%s) : f32", "host.launch @k takes buffers, not f32"),
        ("host.launch @k(%x, %x) : tensor<4xf32>", "2"),
        ("%a = host.reinterpret %x offset 0 : tensor<4xf32> to f32", "host.reinterpret makes a buffer of a buffer"),
        (
            "%a = host.reinterpret %x offset 0 : tensor<4xf32> to tensor<4xi32>",
            "host.reinterpret keeps the element type",
        ),
        (
            "%b = host.alloc : tensor<4xbf16>\n%a = host.reinterpret %b offset 2 : tensor<4xbf16> to tensor<2xi32>",
            "host.reinterpret keeps the element type",
        ),
        ('%a = "host.reinterpret"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "needs the property `offset`"),
        (
            '%a = "host.reinterpret"(%x) <{offset = #sym.map<(d0) -> (d0)>}> : (tensor<4xf32>) -> tensor<4xf32>',
            "host.reinterpret needs one offset",
        ),
        ("%a = host.place %x at 0 : tensor<4xf32> to tensor<4xf32>", "host.place takes a place in a tensor of ui8"),
        ("%p = host.place %a at 0 : tensor<64xui8> to f32", "host.place makes a tensor of known size, not f32"),
        (
            "%p = host.place %a at 0 : tensor<64xui8> to tensor<?xf32, #aten.layout<sizes = [s0]>>",
            "host.place makes a tensor of known size",
        ),
        ("%p = host.place %a at 0 : tensor<64xui8> to tensor<17xf32>", "host.place: 68 bytes at 0 are not in"),
        ("%p = host.place %a at 4 : tensor<64xui8> to tensor<4xf32>", "not at a multiple of 64"),
        ('%p = "host.place"(%a) : (tensor<64xui8>) -> tensor<4xf32>', "needs the property `offset`"),
        ("host.free %s : f32", "host.free frees buffers, not f32"),
        ('"host.free"() : () -> ()', "host.free has 1 operands"),
        ('"host.extern"() : () -> ()', "the property `callee` must name an overload"),
    ],
)
def test_what_is_refused(op: str, message: str) -> None:
    arguments = "%x : tensor<4xf32>, %s : f32, %a : tensor<64xui8>"
    refused(f"host.func @main({arguments}) -> () {{\n {op.replace('%a = ', '%r = ')}\n host.return\n}}", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host.func @main(%x : tensor<4xf32>) -> () {\n %y = host.alloc : tensor<f32>\n}", "is not a terminator"),
        (
            "host.func @main(%x : tensor<4xf32>) -> (tensor<4xf64>) {\n host.return %x : tensor<4xf32>\n}",
            "host.func: what is returned does not have the types of the signature",
        ),
        (
            '"host.func"() <{sym_name = "main", function_type = (f32) -> ()}> ({\n host.return\n}) : () -> ()',
            "host.func: the arguments of the body are not those of the signature",
        ),
        ('"host.func"() <{sym_name = "main", function_type = () -> ()}> : () -> ()', "one region of one block"),
        ('"host.func"() <{sym_name = "main"}> ({\n host.return\n}) : () -> ()', "needs the property `function_type`"),
    ],
)
def test_what_is_refused_of_functions(text: str, message: str) -> None:
    refused(text, message)
