"""Every op of `loops`: its text comes back, in both forms, and each way to get it wrong has a message of its own."""

from __future__ import annotations

import pytest

from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.loops import LOOPS, REDUCTIONS
from tests.dialects.loops.test_fold import FOLD
from tests.dialects.loops.test_meeting import MEETING
from tests.dialects.loops.test_updates import ATOMIC
from tests.support.text import parse, refused, round_trip

WHOLE = {
    "view": """
func.func @main(%x: tensor<4x8xf32>, %e: tensor<0x8xi1>, %d: tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>) {
  %a = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %b = loops.view %x by () -> (3, 7) : tensor<4x8xf32> to tensor<f32>
  %c = loops.view %e by (d0) -> (d0 floordiv 8, d0 mod 8) : tensor<0x8xi1> to tensor<0xi1>
  %f = loops.view %d by (d0)[s0] -> (-d0 + s0 - 1, 0) : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>> to tensor<?xf32, #aten.layout<sizes = [s0]>>
  func.return
}
""",
    "words": """
func.func @main(%x: tensor<4x8xbf16>, %t: tensor<8x4xi8, #aten.layout<strides = [1, 8]>>, %o: tensor<1x4xf16, #aten.layout<strides = [7, 1]>>) {
  %a = loops.words %x along 1 : tensor<4x8xbf16> to tensor<4x4xi32>
  %b = loops.words %t along 0 : tensor<8x4xi8, #aten.layout<strides = [1, 8]>> to tensor<2x4xi32, #aten.layout<strides = [1, 2]>>
  %c = loops.words %o along 1 : tensor<1x4xf16, #aten.layout<strides = [7, 1]>> to tensor<1x2xi32, #aten.layout<strides = [3, 1]>>
  func.return
}
""",
    "join": """
func.func @main(%h: tensor<4x8xf32>, %t: tensor<2x8xf32>, %c: tensor<4x3xi1, #aten.layout<strides = [s0 + 3, 1]>>, %d: tensor<4x?xi1, #aten.layout<sizes = [4, s0], strides = [s0 + 3, 1]>>) {
  %a = loops.join %h, %t, %t along 0 : tensor<4x8xf32>, tensor<2x8xf32>, tensor<2x8xf32> to tensor<8x8xf32>
  %b = loops.join %c, %d along 1 : tensor<4x3xi1, #aten.layout<strides = [s0 + 3, 1]>>, tensor<4x?xi1, #aten.layout<sizes = [4, s0], strides = [s0 + 3, 1]>> to tensor<4x?xi1, #aten.layout<sizes = [4, s0 + 3]>>
  func.return
}
""",
    "extern": """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) {
  %a = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %b = loops.extern "aten.rand.default"([4, 8], dtype = torch.float32) : () -> tensor<4x8xf32>
  %c = loops.extern pure "aten.cat.default"([%x, %b], 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %d, %e = loops.extern "mylib::both.default"(%x, 1, 1.0, true, none, "mode", -inf) : (tensor<4x8xf32>) -> (tensor<f32>, !aten.literal)
  func.return
}
""",
    "nest": """
func.func @main(%x: tensor<4x8xf32>, %d: tensor<?xf32, #aten.layout<sizes = [s0 * 4]>>) {
  %a, %b = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %p: tensor<4xi64>) {
    loops.for (%j : 2, %k : 4) {
      %u = loops.load %x[%i, %j * 4 + %k] : tensor<4x8xf32>
      loops.store %u, %o[%i, %j * 4 + %k] : tensor<4x8xf32>
      loops.for (%l : 3) {
      }
    }
    %m = loops.index [%i * 2 + 1] : i64
    loops.store %m, %p[%i] : tensor<4xi64>
  }
  %c = loops.nest () outs(%o: tensor<f32>) {
    %u = loops.load %x[3, 7] : tensor<4x8xf32>
    loops.store %u, %o[] : tensor<f32>
  }
  %e = loops.nest (%i : s0 * 4) outs(%o: tensor<?xf32, #aten.layout<sizes = [s0 * 4]>>) {
    %t = elem.constant true : i1
    %u = elem.constant -inf : f32
    %v = loops.load %d[(%i + 1) mod (s0 * 4)] if %t else %u : tensor<?xf32, #aten.layout<sizes = [s0 * 4]>>
    loops.store %v, %o[%i] if %t : tensor<?xf32, #aten.layout<sizes = [s0 * 4]>>
  }
  %f = loops.nest (%i : 0) outs(%o: tensor<0xf32>) {
  }
  func.return
}
""",
    "schedule": """
func.func @main() {
  %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) schedule #loops.schedule<lanes = 2048, warps = 8> {
    %u = elem.constant 1.0 : f32
    loops.store %u, %o[%i] : tensor<4xf32>
  }
  func.return
}
""",
    "bound": """
func.func @main(%x: tensor<4x8xf32>, %k: tensor<4xi32>) {
  %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
    %m = loops.load %k[%i] : tensor<4xi32>
    %b = loops.bound %m, 4 : i32
    %n = elem.convert %m : i32 to i64
    %c = loops.bound %n, s0 + 1 wrap : i64
    %d = loops.bound %n, 1 divisor : i64
    %e = loops.bound %n, 1 divisor checked : i64
    %u = loops.load %x[%b, %c + %i] : tensor<4x8xf32>
    loops.store %u, %o[%i] : tensor<4xf32>
  }
  func.return
}
""",
    "scan": """
func.func @main(%x: tensor<4x8xf32>, %k: tensor<8xi64>) {
  %a, %b, %c = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %p: tensor<4x8xi64>, %q: tensor<4x3xf32>) {
    loops.scan (%j : 8) {
      %u = loops.load %x[%i, %j] : tensor<4x8xf32>
      %s = loops.running sum %u : f32
      %t = loops.running prod %u : f32
      %v = loops.running logaddexp %s : f32
      %m, %n = loops.running last_argmax %t : f32
      %f, %g = loops.running last_argmin %v : f32
      loops.store %m, %o[%i, %j] : tensor<4x8xf32>
      loops.store %n, %p[%i, %j] : tensor<4x8xi64>
    }
    %z = elem.constant 0.0 : f32
    %t = elem.constant true : i1
    loops.for (%j : 3) {
      loops.store %z, %q[%i, %j] : tensor<4x3xf32>
    }
    loops.scan (%j : 2, %l : 4) {
      %m = loops.load %k[%j * 4 + %l] : tensor<8xi64>
      %n = loops.bound %m, 3 : i64
      %u = loops.load %x[%i, %j * 4 + %l] : tensor<4x8xf32>
      loops.combine sum %u, %q[%i, %n] : tensor<4x3xf32>
      loops.combine assign %u, %q[%i, 2] if %t : tensor<4x3xf32>
      loops.for (%w : 3) {
        loops.combine maximum %u, %q[%i, %w] : tensor<4x3xf32>
      }
    }
  }
  func.return
}
""",
}
WHOLE["meeting"] = MEETING
WHOLE["fold"] = FOLD
WHOLE["updates"] = ATOMIC
ELEMENT = {"any": "i1", "all": "i1"}
RESULTS = {**dict.fromkeys(EXTREMES, "f32, i64"), "welford": "f32, f32", "any": "i1", "all": "i1"}


@pytest.mark.parametrize("name", WHOLE)
def test_round_trip(name: str) -> None:
    round_trip(WHOLE[name])


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_every_reduction(kind: str) -> None:
    element, results = ELEMENT.get(kind, "f32"), RESULTS.get(kind, "f32")
    names = ", ".join(f"%r{k}" for k in range(len(results.split(", "))))
    round_trip(f"""
func.func @main(%x: tensor<4x8x{element}>) {{
  %a = loops.nest (%i : 4) outs(%o: tensor<4x{element}>) {{
    {names} = loops.reduce {kind} (%j : 2, %k : s0) {{
      %u = loops.load %x[%i, %j * s0 + %k] : tensor<4x8x{element}>
      loops.yield %u : {element}
    }} : {results}
    loops.store %r0, %o[%i] : tensor<4x{element}>
  }}
  func.return
}}
""")


def test_all_ops_are_here() -> None:
    written = {op.name for text in WHOLE.values() for op in parse(text).walk()} | {"loops.reduce", "loops.yield"}
    assert {op.name for op in LOOPS.operations} <= written


def test_text_that_is_not_canonical_comes_out_canonical() -> None:
    module = parse("""
func.func @main(%x : tensor<4x8xf32>) {
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %a = loops.load %x[1 + %j - 1 - %j + %i, %j * 1] : tensor<4x8xf32>
    loops.store %a, %o[0 + %i, %j] : tensor<4x8xf32>
  }
  func.return
}""")
    assert "loops.load %x[%i, %j] :" in str(module)
    assert "loops.store %a, %o[%i, %j] :" in str(module)


IN_A_BODY = [
    ("%a = loops.load %x[%i] : tensor<4x8xf32>", "loops.load: 1 indices for 2 axes"),
    ("%a = loops.load %v[] : f32", "only a tensor's elements are read and written, not f32"),
    ('%a = "loops.load"(%x, %i, %i) : (tensor<4x8xf32>, index, index) -> f32', "needs the property `map`"),
    (
        '%a = "loops.load"(%x, %i) <{map = #sym.map<(d0, d1) -> (d0, d1)>}> : (tensor<4x8xf32>, index) -> f32',
        "loops.load has 3 to 5 operands, 1 results and no regions, not 2 operands",
    ),
    (
        '%a = "loops.load"(%x, %v, %i) <{map = #sym.map<(d0, d1) -> (d0, d1)>}> : (tensor<4x8xf32>, f32, index) -> f32',
        "loops.load: an index operand is not of type index",
    ),
    (
        '%a = "loops.load"(%x, %i, %j) <{map = #sym.map<(d0, d1) -> (d0, d1)>}> : (tensor<4x8xf32>, index, index) -> f64',
        "loops.load of tensor<4x8xf32> gives f32, not f64",
    ),
    (
        '%a = "loops.load"(%x, %i, %j, %c) <{map = #sym.map<(d0, d1) -> (d0, d1)>}>'
        " : (tensor<4x8xf32>, index, index, i1) -> f32",
        "loops.load: a mask is an i1 and an element of the source's type",
    ),
    ("loops.store %v, %x[%i, %j] : tensor<4x8xf32>", "loops.store writes only to an out of the nest it stands in"),
    ("loops.store %v, %o[%i] : tensor<4x8xf32>", "loops.store: 1 indices for 2 axes"),
    ("loops.store %v, %v[] : f32", "only a tensor's elements are read and written, not f32"),
    (
        '"loops.store"(%k, %o, %i, %j) <{map = #sym.map<(d0, d1) -> (d0, d1)>}>'
        " : (i64, tensor<4x8xf32>, index, index) -> ()",
        "loops.store writes f32 to tensor<4x8xf32>, not i64",
    ),
    (
        '"loops.store"(%v, %o, %i, %j, %k) <{map = #sym.map<(d0, d1) -> (d0, d1)>}>'
        " : (f32, tensor<4x8xf32>, index, index, i64) -> ()",
        "loops.store: a mask is an i1",
    ),
    ("%a = loops.index [%i] : f32", "loops.index gives an integer, not f32"),
    ("%a = loops.index [%i, %j] : i64", "loops.index takes one index expression"),
    ("%a = loops.bound %v, 4 : f32", "loops.bound makes an index of one integer"),
    ('%a = "loops.bound"(%k) : (i64) -> index', "loops.bound needs the property `size`"),
    ('%a = "loops.bound"(%k) <{size = #sym.map<() -> (4, 5)>}> : (i64) -> index', "loops.bound needs one size"),
    ('%a = "loops.load"(%v) <{map = #sym.map<() -> ()>}> : (f32) -> f32', "loops.load reads a tensor, not f32"),
    (
        '"loops.store"(%v, %v) <{map = #sym.map<() -> ()>}> : (f32, f32) -> ()',
        "loops.store writes to a tensor, not f32",
    ),
    ('%a = "loops.bound"(%k) <{size = #sym.map<() -> (4)>}> : (i64) -> i64', "loops.bound makes an index"),
    ("loops.yield %v : f32", "loops.yield gives one value, at the end of a loops.reduce"),
    ("loops.for (%k2 : -1) { }", "loops.for: the size -1 is negative"),
    ("%a = loops.reduce sum (%l : 4) { } : f32", "loops.reduce contains empty block"),
    ("%a = loops.reduce sum (%l : 4) { %b = elem.neg %v : f32 } : f32", "is not a terminator"),
    ("%a = loops.reduce median (%l : 4) { loops.yield %v : f32 } : f32", "as the kind of reduction"),
    (
        '%a = "loops.reduce"() <{sizes = #sym.map<() -> (4)>, kind = "median"}> ({\n^bb(%l : index):\n'
        "loops.yield %v : f32\n}) : () -> f32",
        "loops.reduce: no reduction is called median; there are sum, prod",
    ),
    ("%a = loops.reduce sum (%l : 4) { loops.yield %v : f32 } : f64", "loops.reduce sum of f32 gives f32"),
    ("%a, %b = loops.reduce argmax (%l : 4) { loops.yield %v : f32 } : f32, i32", "gives f32, i64"),
    ("%a = loops.reduce any (%l : 4) { loops.yield %v : f32 } : f32", "loops.reduce any is defined on i1, not on f32"),
    ('"loops.for"() <{sizes = #sym.map<(d0) -> (d0)>}> ({\n^bb(%l : index):\n}) : () -> ()', "a map without dims"),
    ('"loops.for"() <{sizes = #sym.map<() -> (4)>}> : () -> ()', "loops.for needs one region of one block"),
    (
        '"loops.for"() <{sizes = #sym.map<() -> (4)>}> ({\n^bb(%l : index, %m : index):\n}) : () -> ()',
        "loops.for has 1 axes and 0 outs, but its body has 2 arguments",
    ),
    (
        '"loops.for"() <{sizes = #sym.map<() -> (4)>}> ({\n^bb(%l : i64):\n}) : () -> ()',
        "loops.for: induction variables are of type index",
    ),
    (
        '"loops.for"(%v) <{sizes = #sym.map<() -> (4)>}> ({\n^bb(%l : index):\n}) : (f32) -> ()',
        "loops.for has neither operands nor results",
    ),
]


@pytest.mark.parametrize(("body", "message"), IN_A_BODY)
def test_what_is_refused_in_a_body(body: str, message: str) -> None:
    refused(
        f"""func.func @main(%x : tensor<4x8xf32>) {{
          %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {{
            %v = elem.constant 1.0 : f32
            %k = elem.constant 1 : i64
            %c = elem.constant true : i1
            {body}
          }}
          func.return
        }}""",
        message,
    )


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("%a = loops.view %s by () -> () : f32 to tensor<f32>", "loops.view makes a tensor of a tensor"),
        (
            "%a = loops.view %x by (d0) -> (d0, 0) : tensor<4x8xf32> to tensor<4xf64>",
            "loops.view keeps the element type",
        ),
        (
            "%a = loops.view %x by (d0) -> (d0) : tensor<4x8xf32> to tensor<4xf32>",
            "loops.view: a map of 1 dims to 1 does not take tensor<4xf32> to tensor<4x8xf32>",
        ),
        ('%a = "loops.view"(%x) : (tensor<4x8xf32>) -> tensor<4xf32>', "loops.view needs the property `map`"),
        ('"loops.extern"() : () -> ()', "the property `callee` must name an overload"),
        ("%a = loops.nest (%i : 4) outs(%o : f32) { }", "loops.nest: a handle of type f32"),
        (
            '%a = "loops.nest"() <{sizes = #sym.map<() -> (4)>}> ({\n^bb(%i : index, %o : tensor<4xf32>):\n})'
            " : () -> tensor<8xf32>",
            "loops.nest: a handle of type tensor<4xf32> for a result of type tensor<8xf32>",
        ),
        (
            '"loops.nest"(%x) <{sizes = #sym.map<() -> (4)>}> ({\n^bb(%i : index):\n}) : (tensor<4x8xf32>) -> ()',
            "loops.nest updates 1 values, but has 0 outs",
        ),
        ("loops.nest (%i : 4) { }", "Expected 'outs'"),
        ("%a = loops.nest (%i : 4.5) outs(%o : tensor<4xf32>) { }", "index expression expected"),
    ],
)
def test_what_is_refused_in_main(op: str, message: str) -> None:
    refused(f"func.func @main(%x : tensor<4x8xf32>, %s : f32) {{\n {op}\n func.return\n}}", message)


SCAN = """
func.func @main(%x: tensor<4xf32>, %k: tensor<4xi64>) {{
  %a = loops.nest () outs(%o: tensor<4xf32>) {{
    loops.scan (%j : 4) {{
      %u = loops.load %x[%j] : tensor<4xf32>
      %m = loops.load %k[%j] : tensor<4xi64>
      %t = elem.lt %u, %u : f32
      {inside}
    }}
    {after}
  }}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("inside", "after", "message"),
    [
        ("loops.for (%w : 2) {\n%s = loops.running sum %u : f32\n}", "", "stands in the body of a loops.scan"),
        ("%s = loops.running logaddexp %m : i64", "", "logaddexp is not defined on i64"),
        ("%s = loops.running sum %t : i1", "", "sum is not defined on i1"),
        ("%s = loops.running mean %u : f32", "", "as the kind of a running value"),
        ("loops.combine mean %u, %o[%j] : tensor<4xf32>", "", "as the kind of combination"),
        ("loops.combine sum %u, %x[%j] : tensor<4xf32>", "", "writes only to an out of the nest"),
        ("loops.combine sum %t, %o[%j] : tensor<4xf32>", "", "operand is used with type"),
        ("", "%z = elem.constant 1.0 : f32\nloops.combine sum %z, %o[0] : tensor<4xf32>", "there is none around it"),
        ("loops.yield %u : f32", "", "at the end of a loops.reduce"),
        (
            "%w = loops.load %o[%j] : tensor<4xf32>\nloops.combine sum %w, %o[0] : tensor<4xf32>",
            "",
            "a loops.load in the same loops.scan reads what it changes",
        ),
    ],
)
def test_what_is_wrong_with_a_scan(inside: str, after: str, message: str) -> None:
    refused(SCAN.format(inside=inside, after=after), message)


@pytest.mark.parametrize(
    ("source", "axis", "result", "message"),
    [
        ("tensor<4x8xf32>", 1, "tensor<4x4xi32>", "its elements of type f32 are no 8 or 16 bits"),
        ("tensor<4x8xbf16>", 0, "tensor<2x8xi32>", "it has no axis 0 along which elements are neighbours"),
        ("tensor<4x8xbf16>", 2, "tensor<4x4xi32>", "it has no axis 2 along which elements are neighbours"),
        ("tensor<1x6xi8>", 1, "tensor<1x1xi32>", "its 6 elements along axis 1, 1 apart, are no whole words"),
        (
            "tensor<4x8xbf16, #aten.layout<strides = [9, 1]>>",
            1,
            "tensor<4x4xi32>",
            "its 4 elements along axis 0, 9 apart, are no whole words",
        ),
        (
            "tensor<?x8xbf16, #aten.layout<sizes = [s0, 8]>>",
            1,
            "tensor<4x4xi32>",
            "a size or a stride is known when it runs only",
        ),
        ("tensor<4x8xbf16>", 1, "tensor<4x8xi32>", "loops.words of tensor<4x8xbf16> is tensor<4x4xi32>, not"),
    ],
)
def test_what_has_no_words(source: str, axis: int, result: str, message: str) -> None:
    text = f"%w = loops.words %x along {axis} : {source} to {result}"
    symbols = " attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>}" if "s0" in source else ""
    refused(f"func.func @main(%x : {source}){symbols} {{\n {text}\n func.return\n}}", message)
