"""Where an expression in the body of a `kernel.fold` is written."""

from __future__ import annotations

from cuesta.dialects import sym
from cuesta.targets.triton.emit_fold import is_below
from cuesta.targets.triton.emit_hoist import Hoisting, Loop

OUTER, INNER = Loop(1, ""), Loop(2, "some")
HOMES = {"p": 0, "c": 1, "d": 2, "n": 3, "mask": 2}


def test_as_far_out_as_what_it_is_made_of() -> None:
    hoisting = Hoisting(HOMES, [OUTER, INNER])
    assert hoisting.depth("p * 64 + lanes", 2) == 0
    assert hoisting.depth("p * 64 + c", 2) == 1
    assert hoisting.depth("c + d", 2) == 2
    assert hoisting.depth("n + p", 3) == 3
    assert hoisting.depth("tl.where(p, 1, 0)", 3) == 0
    assert Hoisting(HOMES).depth("p", 2) == 2, "there is no fold"


def test_the_names_of_arguments_are_no_names() -> None:
    hoisting = Hoisting(HOMES, [OUTER, INNER])
    assert hoisting.depth("tl.load(x + p, mask=p, other=0)", 2) == 0
    assert hoisting.depth("tl.load(x + p, mask=mask, other=0)", 2) == 2


def test_loads_are_masked_by_whether_there_is_a_point_and_stay_in_other_loops() -> None:
    hoisting = Hoisting(HOMES, [OUTER, INNER])
    assert hoisting.guards("tl.load(x + c)", 2) == hoisting.guards("tl.load(x + p)", 2) == ["some"]
    assert hoisting.places("tl.load(x + c)", 2) == (1, 2), "known where the loop has a point"
    assert hoisting.places("c + p", 2) == (1, 1)
    assert hoisting.places("tl.load(x + p)", 3) == (3, 3), "what is in between may have no point"
    assert not hoisting.guards("tl.load(x + p)", 3)


def test_texts_that_differ_in_names_only() -> None:
    hoisting = Hoisting({"x": 2, "y": 2, "x_1": 2, "y_1": 2, "q": 0, "r": 0})
    text = "x = q + k\ny = x * x"
    assert hoisting.anonymous(text, 1) == hoisting.anonymous("x_1 = q + k\ny_1 = x_1 * x_1", 1)
    assert hoisting.anonymous(text, 1) != hoisting.anonymous("x_1 = r + k\ny_1 = x_1 * x_1", 1)
    assert hoisting.anonymous(text, 1) != hoisting.anonymous("x_1 = q + k\ny_1 = x_1 * y_1", 1)


def test_whether_a_loop_has_a_point() -> None:
    p = sym.dim(0)
    assert is_below(0, p + 1, [8]) and not is_below(0, p, [8])
    assert is_below(sym.minimum(p * 2, 3), p * 2 + 2, [8])
    assert is_below(sym.minimum(p * 2, 16), 16, [8]) and not is_below(sym.minimum(p * 2, 16), 16, [9])
    assert is_below(sym.maximum(p - 4, 0), p + 1, [8]) and not is_below(sym.maximum(p - 4, 2), p + 1, [8])
