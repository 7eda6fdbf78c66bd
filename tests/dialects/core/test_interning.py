"""Interned objects and memos: one object for a key while it is held, and tables that stay small."""

from __future__ import annotations

import gc
import importlib
from threading import Barrier, Thread
from typing import Any

import pytest
from xdsl.dialects.builtin import f32

from cuesta.dialects import layout, sym
from cuesta.dialects.core import fingerprint
from cuesta.dialects.core.interning import Interned, Memo
from cuesta.dialects.sym import map as maps
from cuesta.dialects.sym import nodes

pytestmark = pytest.mark.slow

simplify: Any = importlib.import_module("cuesta.dialects.sym.simplify")  # the package's name `simplify` is the function


class Thing:
    """Anything that can be weakly referenced."""


def found(table: Interned[int, Thing], key: int) -> Thing | None:
    reference = table.find(key)
    return None if reference is None else reference()


def test_one_object_while_it_is_held() -> None:
    table = Interned[int, Thing](recent=2)
    first = table.add(1, Thing())
    for key in range(2, 50):
        table.add(key, Thing())
    assert found(table, 1) is first
    assert table.add(1, Thing()) is first  # who comes second gets what there is
    assert len(table) <= 1 + 2 * 2
    del first
    for key in range(50, 60):
        table.add(key, Thing())
    assert found(table, 1) is None


def test_what_was_made_lately_is_there() -> None:
    table = Interned[int, Thing](recent=4)
    table.add(1, Thing())
    assert found(table, 1) is not None


def test_a_cycle_is_forgotten_when_it_is_collected() -> None:
    table = Interned[int, Thing](recent=1)
    thing: Any = Thing()
    thing.own = thing
    table.add(1, thing)
    del thing
    table.add(2, Thing())
    table.add(3, Thing())
    gc.collect()
    assert found(table, 1) is None


def test_threads_agree() -> None:
    table = Interned[int, Thing](recent=8)
    start, seen = Barrier(4), [list[Thing](), list[Thing](), list[Thing](), list[Thing]()]

    def work(mine: list[Thing]) -> None:
        start.wait()
        for key in range(2000):
            mine.append(found(table, key) or table.add(key, Thing()))

    threads = [Thread(target=work, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for things in zip(*seen, strict=True):
        assert len(set(map(id, things))) == 1


def test_a_memo_forgets_the_older_half() -> None:
    memo = Memo[int, str](4)
    for key in range(4):
        assert memo.keep(key, str(key)) == str(key)
    assert list(memo) == [0, 1, 2, 3]
    memo.keep(4, "4")
    assert list(memo) == [2, 3, 4]
    assert memo.get(0) is None


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables with room for so little that a few shapes fill them."""
    for table in (nodes._atoms, nodes._monomials, nodes._sums, maps._maps, layout._types):
        monkeypatch.setattr(table, "_recent", 16)
    for memo in (layout._sizes, layout._strides, layout._views, simplify._spaces, fingerprint._KEYS):
        monkeypatch.setattr(memo, "most", 32)
        memo.clear()  # Else it forgets what earlier tests left, and holds all of this one's.


def _sizes_of_tables() -> list[int]:
    gc.collect()
    tables = (nodes._atoms, nodes._monomials, nodes._sums, maps._maps, layout._types)
    memos = (layout._sizes, layout._strides, layout._views, simplify._spaces, fingerprint._KEYS)
    return [*map(len, tables), *map(len, memos)]


def _compile(size: int) -> None:
    """What compiling a graph with a tensor of a size of its own leaves behind."""
    n = sym.symbol(f"s{size}")
    tensor = layout.tensor_type((n, size), f32)
    turned = sym.MapAttr.get(2, (sym.dim(1), sym.dim(0)))
    cut = sym.MapAttr.get(1, sym.delinearize(sym.dim(0), (size, n))).simplified((n * size,))
    layout.strided_view(turned, tensor, (size, n))
    layout.strided_view(cut, layout.tensor_type((size, n), f32), (n * size,))
    fingerprint.key_of(tensor)
    assert layout.sizes_of(tensor) == (n, size) and layout.strides_of(tensor) == (size, 1)


@pytest.mark.usefixtures("_small")
def test_many_shapes_do_not_fill_the_tables() -> None:
    for size in range(1000, 1100):
        _compile(size)
    after_100 = _sizes_of_tables()
    for size in range(1100, 1500):
        _compile(size)
    after_500 = _sizes_of_tables()
    # Each shape makes a dozen nodes of its own; what is left is what the memos hold, which are full already.
    assert all(late <= early + 100 for early, late in zip(after_100, after_500, strict=True)), (after_100, after_500)


@pytest.mark.usefixtures("_small")
def test_what_is_held_stays_equal_to_what_is_made_again() -> None:
    held = (sym.dim(0) * 641 + sym.symbol("held")) // 7
    view, tensor = sym.MapAttr.get(1, (held,)), layout.tensor_type((held, 641), f32)
    for size in range(2000, 2100):
        _compile(size)
    gc.collect()
    again = (sym.dim(0) * 641 + sym.symbol("held")) // 7
    assert again is held and again + 1 == held + 1
    assert sym.MapAttr.get(1, (again,)) is view
    assert layout.tensor_type((again, 641), f32) is tensor


@pytest.mark.usefixtures("_small")
def test_answers_about_one_space_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simplify, "MOST_ANSWERS", 50)
    monkeypatch.setattr("cuesta.dialects.sym.ranges.MOST_ANSWERS", 50)
    sizes = (64, sym.symbol("only_here"))
    for k in range(2, 400):
        d0, d1 = sym.dim(0), sym.dim(1)
        assert sym.simplify((d0 * k + d0 % k) // k, sizes) is not None
        assert sym.prove_less_equal(d1, sizes[1] + k, sizes)
    space = simplify._space(sizes, None)
    assert max(map(len, (space._simple, space._simple_atoms, space._functions, space._intervals))) <= 200
