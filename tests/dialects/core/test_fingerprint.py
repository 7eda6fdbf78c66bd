from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from cuesta.context import make_context
from cuesta.dialects.core.fingerprint import fingerprint, structurally_equal
from cuesta.dialects.core.locations import CuestaParser


def parse(body: str) -> ModuleOp:
    context = make_context()
    context.allow_unregistered = True
    text = f'func.func @main(%x: f32, %y: f32) {{ {body} "test.end"(%x) : (f32) -> () func.return }}'
    return CuestaParser(context, text, "fingerprint.mlir").parse_module()


def ops_of(module: ModuleOp) -> list[Operation]:
    function = next(iter(module.body.ops))
    block = function.regions[0].first_block
    assert block is not None
    return list(block.ops)


def test_names_and_locations_do_not_count() -> None:
    a = parse('%a = "test.op"(%x) : (f32) -> f32 loc("model.py":1:0)')
    b = parse('%b = "test.op"(%x) : (f32) -> f32 loc("model.py":2:0)')
    assert structurally_equal(a, b)
    assert hash(fingerprint(a)) == hash(fingerprint(b))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('%a = "test.op"(%x) : (f32) -> f32', '%a = "test.op"(%x) : (f32) -> f64'),
        ('%a = "test.op"(%x) : (f32) -> f32', '%a = "test.op"(%x, %x) : (f32, f32) -> f32'),
        ('%a = "test.op"(%x, %x) : (f32, f32) -> f32', '%a = "test.op"(%x, %y) : (f32, f32) -> f32'),
        ('%a = "test.op"(%x) : (f32) -> f32', '%a = "test.other"(%x) : (f32) -> f32'),
        ('"test.op"() {v = 0.0 : f32} : () -> ()', '"test.op"() {v = -0.0 : f32} : () -> ()'),
        ('"test.op"() {v = 1 : i32} : () -> ()', '"test.op"() {v = 1.0 : f32} : () -> ()'),
        ('"test.op"() {v = 1 : i1} : () -> ()', '"test.op"() {w = 1 : i1} : () -> ()'),
        ('"test.op"() {v = 1 : i1} : () -> ()', '"test.op"() : () -> ()'),
        ('"test.op"() <{v = 1 : i1}> : () -> ()', '"test.op"() {v = 1 : i1} : () -> ()'),
        ('"test.op"() ({ "test.in"() : () -> () }) : () -> ()', '"test.op"() ({ }) : () -> ()'),
        # Two ops in one region, or the second one after it.
        (
            '"test.op"() ({ "test.in"() : () -> () "test.in"() : () -> () }) : () -> ()',
            '"test.op"() ({ "test.in"() : () -> () }) : () -> () "test.in"() : () -> ()',
        ),
        (
            '"test.op"() ({ ^a(%p: f32): "test.in"(%p) : (f32) -> () }) : () -> ()',
            '"test.op"() ({ ^a(%p: f64): "test.in"(%p) : (f64) -> () }) : () -> ()',
        ),
    ],
)
def test_what_counts(one: str, other: str) -> None:
    assert structurally_equal(parse(one), parse(one))
    assert not structurally_equal(parse(one), parse(other))


def test_nan_equals_itself() -> None:
    body = '"test.op"() {v = 0x7FC00000 : f32} : () -> ()'
    assert structurally_equal(parse(body), parse(body))


def test_attributes_in_any_order() -> None:
    one = '"test.op"() {a = 1 : i32, b = 2 : i32} : () -> ()'
    other = '"test.op"() {b = 2 : i32, a = 1 : i32} : () -> ()'
    assert structurally_equal(parse(one), parse(other))


def test_same_computation_on_other_values_agrees_only_without_identity() -> None:
    on_x, on_y, again = ops_of(
        parse('"test.op"(%x) : (f32) -> () "test.op"(%y) : (f32) -> () "test.op"(%x) : (f32) -> ()')
    )[:3]
    assert fingerprint(on_x) == fingerprint(on_y)
    assert fingerprint(on_x, by_identity=True) != fingerprint(on_y, by_identity=True)
    assert fingerprint(on_x, by_identity=True) == fingerprint(again, by_identity=True)
