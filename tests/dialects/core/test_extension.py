"""Extensions as values: what they hold is checked, and they come into force in a block and nowhere else."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.extension import NONE, After, Before, Extension, Extensions, active, extended
from cuesta.dialects.elem import Row


def lower(op: Any, builder: Any) -> list[Any]:
    return []


def lower_otherwise(op: Any, builder: Any) -> list[Any]:
    return []


@dataclass(frozen=True)
class CountPass(ModulePass):
    """Does nothing."""

    name = "count-things"
    most: int = 3

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


ROW = Row("i0", 1, "f", "torch.i0(a)", "libdevice.cyl_bessel_i0({a})")


def test_holds_what_it_was_given() -> None:
    one = Extension(
        "mine", passes=[After("cse", CountPass), CountPass], lowerings={"aten.i0.default": lower}, elem=[ROW]
    )
    merged = Extensions.of([one])
    assert merged.passes == {"count-things": CountPass}
    assert [place.stage for place in merged.places] == ["cse"]
    assert merged.lowerings["aten.i0.default"] is lower
    assert merged.elem["i0"] is ROW
    assert merged.owner(lower) is merged.owner(CountPass) is merged.owner(CountPass(5)) is one
    assert merged.owner(lower_otherwise) is None
    assert one.place.startswith(f"{__file__}:")


def test_is_in_force_in_its_block_only() -> None:
    outer, inner = Extension("outer"), Extension("inner")
    assert active() is NONE
    assert not active()
    with extended(outer) as one:
        assert active() is one is Extensions.of([outer])
        with extended(inner, outer):
            assert active() is Extensions.of([outer, inner])
        assert active() is one
        with extended(Extensions.of([inner])):
            assert [member.name for member in active().members] == ["outer", "inner"]
    assert active() is NONE


def test_the_same_extensions_are_the_same_object_and_in_another_order_another() -> None:
    a, b = Extension("a"), Extension("b")
    assert Extensions.of([a, b]) is Extensions.of([a, b, a])
    assert Extensions.of([a, b]) is not Extensions.of([b, a])
    assert Extensions.of([]) is NONE


def test_a_thread_begins_with_nothing() -> None:
    seen: list[Extensions] = []
    with extended(Extension("mine")):
        thread = threading.Thread(target=lambda: seen.append(active()))
        thread.start()
        thread.join()
    assert seen == [NONE]


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (
            {"lowerings": {"aten.i0.default": lower}},
            {"lowerings": {"aten.i0.default": lower_otherwise}},
            "lowering of aten.i0",
        ),
        ({"elem": [ROW]}, {"elem": [Row("i0", 1, "f", "a", "{a}")]}, "scalar op i0"),
        ({"passes": [CountPass]}, {"passes": [type("Other", (CountPass,), {})]}, "pass count-things"),
    ],
)
def test_a_conflict_names_both(first: dict[str, Any], second: dict[str, Any], what: str) -> None:
    with pytest.raises(CuestaError, match=what) as caught, extended(Extension("a", **first), Extension("b", **second)):
        pass
    text = str(caught.value)
    assert "'a'" in text
    assert "'b'" in text
    assert text.count(__file__) == 2


def test_two_of_one_name_are_a_conflict() -> None:
    with pytest.raises(CuestaError, match="the name 'a' is claimed by two"):
        Extensions.of([Extension("a"), Extension("a")])


def test_what_two_share_is_no_conflict() -> None:
    shared = {"aten.i0.default": lower}
    assert len(Extensions.of([Extension("a", lowerings=shared), Extension("b", lowerings=shared)]).lowerings) == 1


def test_a_scalar_op_of_ours_is_taken() -> None:
    mine = Extension("mine", elem=[Row("exp", 1, "f", "torch.exp(a)", "tl.exp({a})")])
    with pytest.raises(CuestaError, match=r"there is an elem\.exp already"):
        Extensions.of([mine])


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("has space", {}, "a name is of letters"),
        (3, {}, "a name is of letters"),
        ("mine", {"rules": "abc"}, "`rules` must be a list"),
        ("mine", {"rules": [int]}, "`rules` takes laws and instances of patterns"),
        ("mine", {"passes": [3]}, "`passes` takes After"),
        ("mine", {"passes": [CountPass()]}, "has no place"),
        ("mine", {"passes": [After(3, CountPass)]}, "a place is the label of a stage"),  # pyright: ignore[reportArgumentType]
        ("mine", {"passes": [Before("cse", int)]}, "`passes` takes After"),  # pyright: ignore[reportArgumentType]
        ("mine", {"lowerings": [lower]}, "`lowerings` must be a mapping"),
        ("mine", {"lowerings": {"aten.i0": lower}}, "'aten.i0' is no overload"),
        ("mine", {"lowerings": {"aten::i0.default": lower}}, "is no overload; write 'aten.i0.default'"),
        ("mine", {"lowerings": {"aten.i0.default": 3}}, "must be a function"),
        ("mine", {"elem": [3]}, "`elem` takes rows"),
        ("mine", {"elem": [Row("I 0", 1, "f", "a", "{a}")]}, "is no name of a scalar op"),
        ("mine", {"schedules": [3]}, "`schedules` takes functions"),
        ("mine", {"fusions": [3]}, "`fusions` takes functions"),
        ("mine", {"dialects": [3]}, "`dialects` takes xDSL's dialects"),
        ("mine", {"targets": [int]}, "`targets` takes instances of Target"),
        ("mine", {"sources": [3]}, "`sources` takes paths and modules"),
    ],
)
def test_a_field_of_another_kind_is_refused_where_it_is_made(name: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CuestaError) as caught:
        Extension(name, **fields)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")


def test_only_extensions_extend() -> None:
    with pytest.raises(CuestaError, match="an extension is an `Extension`, not 3"), extended(3):  # pyright: ignore[reportArgumentType]
        pass
