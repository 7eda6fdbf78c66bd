"""Every op of `kernel`: its text comes back, in both forms, and each way to get it wrong has a message of its own."""

from __future__ import annotations

import pytest

from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.kernel import KERNEL
from cuesta.dialects.loops import REDUCTIONS
from tests.dialects.kernel.test_contract import CONTRACT
from tests.dialects.kernel.test_fold import FOLD
from tests.dialects.kernel.test_meeting import MEETING
from tests.dialects.kernel.test_pick import PICKS
from tests.support.text import parse, refused, round_trip

WHOLE = {
    "access": """
kernel.func @gather(%x: !kernel.ptr<f32>, %k: !kernel.ptr<i32>) outs(%y: !kernel.ptr<f32>, %z: !kernel.ptr<i64>) symbols(s0) schedule #kernel.schedule<grid = [s0 * 2, 3], parallel = 1, unroll = 4> {
  %p = kernel.program_id 0
  %q = kernel.program_id 1
  %t = elem.constant true : i1
  %u = elem.constant -inf : f32
  %a = kernel.load %x[%p * 3 + %q] if %t else %u : f32
  kernel.for (%j = 0 to s0 lanes 8) {
    %m = kernel.load %k[%j + s0] : vector<8xi32>
    %b = kernel.bound %m, s0 wrap : vector<8xi32>
    %n = elem.lt %m, %m : vector<8xi32>
    %w = kernel.broadcast %a : f32 to vector<8xf32>
    %v = kernel.load %x[%b * 2 + %p] if %n else %w : vector<8xf32>
    kernel.store %v, %y[%j] if %n : vector<8xf32>
    %i = kernel.index [%j * 2 + %p] : vector<8xi64>
    kernel.store %i, %z[%j] : vector<8xi64>
  }
  %c = kernel.load %k[0] : i32
  %d = kernel.bound %c, 4 : i32
  kernel.store %a, %y[%d + s0] if %t : f32
  %l = kernel.local 64 : !kernel.ptr<i1>
  kernel.store %t, %l[63] : i1
}
""",
    "loops": """
kernel.func @loops() outs(%y: !kernel.ptr<f64>) schedule #kernel.schedule<grid = [4, 5]> {
  %p = kernel.program_id 0
  %q = kernel.program_id 1
  kernel.for (%n = %q to %p + 3, %j = %p * 64 to min(%p * 64 + 64, 1000) lanes 8) {
    %a = kernel.load %y[%n * 64 + %j] : vector<8xf64>
    kernel.within [%n * 64 + %j], 4096, "kernel.store of %y"
    kernel.store %a, %y[%n * 64 + %j] : vector<8xf64>
  }
  kernel.for (%n = 0 to 0) {
  }
  kernel.for (%n = 0 to 3, %j = 0 to 100 lanes 8) unroll 4 {
    %a = kernel.load %y[%n * 64 + %j] : vector<8xf64>
    kernel.store %a, %y[%n * 64 + %j] : vector<8xf64>
  }
  kernel.scan (%n = 0 to 26) unroll 7 {
  }
  %s = kernel.reduce sum (%n = 0 to 26) unroll 7 {
    %a = kernel.load %y[%n] : f64
    kernel.yield %a : f64
  } : f64
}
""",
    "launch": """
kernel.func @copy(%x: !kernel.ptr<i1>) outs(%y: !kernel.ptr<i1>) schedule #kernel.schedule<grid = [], warps = 8, stages = three> {
  %a = kernel.load %x[0] : i1
  kernel.store %a, %y[0] : i1
}
func.func @main(%x: tensor<i1>) -> tensor<i1> {
  %y = kernel.launch @copy(%x) : (tensor<i1>) -> (tensor<i1>)
  func.return %y : tensor<i1>
}
""",
    "scan": """
kernel.func @scan(%x: !kernel.ptr<f32>, %k: !kernel.ptr<i64>) outs(%y: !kernel.ptr<f32>, %z: !kernel.ptr<f32>) updates 1 schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  kernel.scan (%j = 0 to 64 lanes 8) {
    %a = kernel.load %x[%p * 64 + %j] : vector<8xf32>
    %s = kernel.running sum %a : vector<8xf32>
    %m, %n = kernel.running last_argmin %s : vector<8xf32>
    kernel.store %m, %y[%p * 64 + %j] : vector<8xf32>
  }
  kernel.scan (%i = 0 to 2, %j = 0 to %p) {
    %m = kernel.load %k[%i * 4 + %j] : i64
    %b = kernel.bound %m, 32 : i64
    %c = elem.lt %m, %m : i64
    kernel.for (%d = 0 to 16 lanes 8) {
      %a = kernel.load %x[%j * 16 + %d] : vector<8xf32>
      kernel.combine sum %a, %z[%b * 16 + %d] : vector<8xf32>
    }
    %u = kernel.load %x[%j] : f32
    kernel.combine minimum %u, %z[%b * 16] if %c : f32
  }
}
func.func @main(%x: tensor<4x64xf32>, %k: tensor<8xi64>, %w: tensor<512xf32>) -> tensor<4x64xf32> {
  %y, %z = kernel.launch @scan(%x, %k, %w) : (tensor<4x64xf32>, tensor<8xi64>, tensor<512xf32>) -> (tensor<4x64xf32>, tensor<512xf32>)
  func.return %y : tensor<4x64xf32>
}
""",
}
WHOLE["atomic"] = """
kernel.func @scatter(%x: !kernel.ptr<f32>, %k: !kernel.ptr<i64>) outs(%n: !kernel.ptr<i32>, %y: !kernel.ptr<f32>) updates 2 schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  kernel.for (%j = %p * 64 to %p * 64 + 64 lanes 64) {
    %m = kernel.load %k[%j] : vector<64xi64>
    %b = kernel.bound %m, 32 : vector<64xi64>
    %a = kernel.load %x[%j] : vector<64xf32>
    kernel.atomic sum %a, %y[%b] : vector<64xf32>
    %c = elem.lt %m, %m : vector<64xi64>
    %i = elem.convert %a : vector<64xf32> to vector<64xi32>
    kernel.atomic maximum %i, %n[0] if %c : vector<64xi32>
    kernel.atomic minimum %i, %n[%b + 1] : vector<64xi32>
    kernel.atomic assign_any %i, %n[%b + 33] : vector<64xi32>
  }
}
"""
WHOLE["contract"] = CONTRACT
WHOLE["fold"] = FOLD
WHOLE["meeting"] = MEETING
WHOLE["picks"] = PICKS
SCALAR = {"any": "i1", "all": "i1"}
RESULTS = {**dict.fromkeys(EXTREMES, "f32, i64"), "welford": "f32, f32", "any": "i1", "all": "i1"}


@pytest.mark.parametrize("name", WHOLE)
def test_round_trip(name: str) -> None:
    round_trip(WHOLE[name])


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_every_reduction(kind: str) -> None:
    scalar, results = SCALAR.get(kind, "f32"), RESULTS.get(kind, "f32")
    count = len(results.split(", "))
    names, others = (", ".join(f"%{letter}{k}" for k in range(count)) for letter in "rs")
    by_lane = ", ".join(f"vector<8x{value}>" for value in results.split(", "))
    round_trip(f"""
kernel.func @reduce(%x: !kernel.ptr<{scalar}>) outs(%y: !kernel.ptr<{scalar}>) schedule #kernel.schedule<grid = [4]> {{
  %p = kernel.program_id 0
  {names} = kernel.reduce {kind} (%n = 0 to 2, %j = %p to 64 lanes 8) {{
    %a = kernel.load %x[%n * 64 + %j] : vector<8x{scalar}>
    kernel.yield %a : vector<8x{scalar}>
  }} : {results}
  kernel.store %r0, %y[%p] : {scalar}
  kernel.for (%j = 0 to 64 lanes 8) {{
    {others} = kernel.reduce {kind} (%n = 0 to 2) {{
      %a = kernel.load %x[%n * 64 + %j] : vector<8x{scalar}>
      kernel.yield %a : vector<8x{scalar}>
    }} : {by_lane}
    kernel.store %s0, %y[%j] : vector<8x{scalar}>
  }}
}}
""")


def test_all_ops_are_here() -> None:
    written = {op.name for text in WHOLE.values() for op in parse(text).walk()} | {"kernel.reduce", "kernel.yield"}
    assert {op.name for op in KERNEL.operations} <= written


LOOP = "lowers = #sym.map<() -> (0)>, uppers = #sym.map<() -> (8)>"

IN_A_BODY = [
    ("%a = kernel.program_id 1", "kernel.program_id 1: the grid has 1 axes"),
    ("kernel.for (%n = 0 to 4) { %a = kernel.program_id 0 }", "kernel.program_id stands at the top of a kernel.func"),
    ('%a = "kernel.program_id"() : () -> index', "kernel.program_id needs the property `axis`"),
    ('%a = "kernel.program_id"() <{axis = 0 : i64}> : () -> i64', "kernel.program_id is of type index, not i64"),
    (
        '%a = "kernel.load"(%x, %p, %p) <{map = #sym.map<(d0, d1) -> (d0, d1)>}>'
        " : (!kernel.ptr<f32>, index, index) -> f32",
        "kernel.load: an address is one index expression, got 2",
    ),
    ('%a = "kernel.load"(%x) : (!kernel.ptr<f32>) -> f32', "kernel.load needs the property `map`"),
    (
        '%a = "kernel.load"(%v, %p) <{map = #sym.map<(d0) -> (d0)>}> : (f32, index) -> f32',
        "expected a !kernel.ptr, got f32",
    ),
    (
        '%a = "kernel.load"(%x, %p) <{map = #sym.map<(d0) -> (d0)>}> : (!kernel.ptr<f32>, index) -> f64',
        "kernel.load gives f32, not f64",
    ),
    (
        '%a = "kernel.load"(%x, %v) <{map = #sym.map<(d0) -> (d0)>}> : (!kernel.ptr<f32>, f32) -> f32',
        "kernel.load: index operands of types f32",
    ),
    (
        '%a = "kernel.load"(%x, %p, %c) <{map = #sym.map<(d0) -> (d0)>}> : (!kernel.ptr<f32>, index, i1) -> f32',
        "kernel.load: a mask is a bool of the value's shape, with a value to stand in",
    ),
    (
        "kernel.for (%j = 0 to 8 lanes 8) { %a = kernel.load %x[%j] : f32 }",
        "an index of type vector<8xindex> does not fit",
    ),
    (
        "kernel.for (%j = 0 to 8 lanes 8) { kernel.store %v, %y[%j] : f32 }",
        "an index of type vector<8xindex> does not fit",
    ),
    (
        '"kernel.store"(%k, %y, %p) <{map = #sym.map<(d0) -> (d0)>}> : (i64, !kernel.ptr<f32>, index) -> ()',
        "kernel.store writes f32 here, not i64",
    ),
    (
        '"kernel.store"(%v, %y, %p, %k) <{map = #sym.map<(d0) -> (d0)>}> : (f32, !kernel.ptr<f32>, index, i64) -> ()',
        "kernel.store: a mask is a bool of the value's shape",
    ),
    ("%a = kernel.index [%p] : f32", "kernel.index of 1 lanes does not give f32"),
    ("%a = kernel.index [%p] : vector<8xi64>", "kernel.index of 1 lanes does not give vector<8xi64>"),
    ("%a = kernel.bound %v, 4 : f32", "kernel.bound makes an index of integers"),
    ('%a = "kernel.bound"(%k) <{size = #sym.map<() -> (4)>}> : (i64) -> i64', "kernel.bound of i64 does not give i64"),
    ('%a = "kernel.bound"(%k) <{size = #sym.map<(d0) -> (d0)>}> : (i64) -> index', "kernel.bound needs one size"),
    ("%a = kernel.broadcast %v : f32 to f32", "kernel.broadcast does not make f32 of f32"),
    ("%a = kernel.broadcast %v : f32 to vector<8xf64>", "kernel.broadcast does not make vector<8xf64> of f32"),
    ("%a = kernel.local 4 : f32", "kernel.local gives a !kernel.ptr, not f32"),
    ('%a = "kernel.local"() : () -> !kernel.ptr<f32>', "kernel.local needs the property `size`"),
    ("kernel.for () { }", "kernel.for needs an axis"),
    ("kernel.for (%n = 0 to 8 lanes 4, %j = 0 to 8) { }", "only the last axis has lanes"),
    ("kernel.for (%j = 0 to 8 lanes 0) { }", "kernel.for: 0 lanes"),
    ("kernel.for (%j = 0 to 8) unroll 1 { }", "kernel.for: unroll 1, but 2 rounds are the fewest"),
    ("kernel.for (%j = 0 to 8) unroll { }", "Expected integer literal"),
    ("kernel.for (%j = 0 to 8) unroll 2 { kernel.for (%i = 0 to 8) { } }", "only a loop without others in it"),
    (
        f'"kernel.for"() <{{{LOOP}, lanes = 1 : i64, unroll = "8"}}> ({{\n^bb(%j : index):\n}}) : () -> ()',
        "kernel.for needs the property `unroll`",
    ),
    (
        f'"kernel.for"() <{{{LOOP}, lanes = 4 : i64}}> ({{\n^bb(%j : index):\n}}) : () -> ()',
        "kernel.for: induction variables are vector<4xindex>, not index",
    ),
    (f'"kernel.for"(%v) <{{{LOOP}, lanes = 1 : i64}}> ({{\n^bb(%j : index):\n}}) : (f32) -> ()', "bounds and operands"),
    (
        '"kernel.for"(%v) <{lowers = #sym.map<(d0) -> (d0)>, uppers = #sym.map<(d0) -> (8)>, lanes = 1 : i64}> ({\n'
        "^bb(%j : index):\n}) : (f32) -> ()",
        "kernel.for: bounds are expressions over scalar index values",
    ),
    (f'"kernel.for"() <{{{LOOP}, lanes = 1 : i64}}> : () -> ()', "kernel.for needs one region of one block"),
    (
        f'%a = "kernel.for"() <{{{LOOP}, lanes = 1 : i64}}> ({{\n^bb(%j : index):\n}}) : () -> f32',
        "kernel.for has no results",
    ),
    ("%a = kernel.reduce sum (%j = 0 to 8) { } : f32", "kernel.reduce contains empty block"),
    ("%a = kernel.reduce median (%j = 0 to 8) { kernel.yield %v : f32 } : f32", "as the kind of reduction"),
    ("%a = kernel.reduce sum (%j = 0 to 8) { kernel.yield %v : f32 } : f64", "kernel.reduce sum of f32 gives f32"),
    (
        "%a = kernel.reduce any (%j = 0 to 8) { kernel.yield %v : f32 } : f32",
        "kernel.reduce any is defined on i1, not on f32",
    ),
    (
        "%a = kernel.reduce sum (%j = 0 to 8 lanes 8) { kernel.yield %v : f32 } : f32",
        "kernel.yield: 8 lanes yield a vector",
    ),
    ("kernel.yield %v : f32", "kernel.yield gives one value, at the end of a kernel.reduce"),
]


@pytest.mark.parametrize(("body", "message"), IN_A_BODY)
def test_what_is_refused_in_a_body(body: str, message: str) -> None:
    refused(
        f"""kernel.func @k(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {{
          %p = kernel.program_id 0
          %v = elem.constant 1.0 : f32
          %k = elem.constant 1 : i64
          %c = elem.constant true : i1
          {body}
        }}""",
        message,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kernel.func @k(%x : f32) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> { }",
            "f32 is no !kernel.ptr",
        ),
        ("kernel.func @k(%x : !kernel.ptr<f32>) outs() schedule #kernel.schedule<grid = []> { }", "says it has 0 outs"),
        ("kernel.func @k() outs(%y : !kernel.ptr<f32>) schedule 4 : i64 { }", "expected #kernel.schedule, got 4 : i64"),
        (
            "kernel.func @k() outs(%y : !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [s0 * s1]> { }",
            "kernel.func @k uses s1, not among its symbols",
        ),
        (
            "kernel.func @k() outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {\n"
            "%a = kernel.index [s2] : i64\n}",
            "kernel.func @k uses s2, not among its symbols",
        ),
        ('"kernel.func"() <{sym_name = "k"}> ({\n^bb(%x : f32):\n}) : () -> ()', "kernel.func needs a schedule"),
        (
            "func.func @main(%x : f32) {\n %y = kernel.launch @k(%x) : (f32) -> (tensor<4xf32>)\n func.return\n}",
            "not f32",
        ),
        ("func.func @main() {\n kernel.launch @k() : () -> ()\n func.return\n}", "kernel.launch @k gives nothing"),
        ('func.func @main() {\n "kernel.launch"() : () -> ()\n func.return\n}', "needs the property `kernel`"),
        (
            "func.func @main(%v : f32) {\n %a = kernel.program_id 0\n func.return\n}",
            "stands at the top of a kernel.func",
        ),
    ],
)
def test_what_is_refused_around_bodies(text: str, message: str) -> None:
    refused(text, message)


def atomic(op: str, *, outs: str = "updates 1 ", load: str = "") -> str:
    return f"""
kernel.func @scatter(%x: !kernel.ptr<f32>) outs(%y: !kernel.ptr<f32>) {outs}schedule #kernel.schedule<grid = [4]> {{
  %p = kernel.program_id 0
  %u = kernel.load %x[%p] : f32
  %t = elem.convert %u : f32 to i1{load}
  kernel.for (%j = 0 to 64 lanes 8) {{
    %a = kernel.load %x[%j] : vector<8xf32>
    {op}
  }}
}}"""


def test_what_an_atomic_change_is_not() -> None:
    good = "kernel.atomic sum %a, %y[%j] : vector<8xf32>"
    round_trip(atomic(good))
    refused(atomic(good, outs=""), "kernel.atomic changes what the kernel updates")
    refused(atomic(good.replace("%y", "%x")), "kernel.atomic changes what the kernel updates")
    refused(atomic(good.replace("sum", "maximum")), "kernel.atomic maximum is not defined on vector<8xf32>")
    refused(atomic(good.replace("sum", "prod")), "as the kind of an atomic change")
    refused(atomic("kernel.atomic sum %u, %y[%p] : f32"), "the 8 lanes around it would make one change")
    refused(atomic("kernel.atomic sum %u, %y[%p] if %t : f32"), "the 8 lanes around it would make one change")
    refused(atomic(good, load="\n  %l = kernel.load %y[%p] : f32"), "a kernel.load reads what others may be changing")
