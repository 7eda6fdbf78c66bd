from __future__ import annotations

import pytest

from cuesta.dialects.sym import MapAttr, dim, symbol

d0, d1, s0 = dim(0), dim(1), symbol("s0")


def test_equal_maps_are_one_object():
    assert MapAttr.get(2, (d0, d1)) is MapAttr.identity(2)
    assert MapAttr.get(2, (d0,)) != MapAttr.get(1, (d0,))
    assert hash(MapAttr((2, (d0, d1)))) == hash(MapAttr.identity(2)) and MapAttr((2, (d0, d1))) == MapAttr.identity(2)


def test_identity():
    assert MapAttr.identity(0).is_identity and MapAttr.identity(3).is_identity
    assert not MapAttr.get(2, (d1, d0)).is_identity
    assert not MapAttr.get(2, (d0,)).is_identity


def test_compose_goes_through_the_inner_map():
    transpose = MapAttr.get(2, (d1, d0))
    assert transpose.compose(transpose).is_identity
    flatten = MapAttr.get(2, (d0 * s0 + d1,))
    split = MapAttr.get(1, (d0 // s0, d0 % s0))
    assert split.compose(flatten).simplified((4, s0)).is_identity
    assert flatten.compose(split).simplified((s0 * 4,)).is_identity


def test_apply():
    assert MapAttr.get(2, (d1 + 1, d0 * 2)).apply((3, d0)) == (d0 + 1, 6)
    with pytest.raises(ValueError, match="applied to 1 indices"):
        MapAttr.identity(2).apply((d0,))


def test_permutation():
    assert MapAttr.get(2, (d1, d0)).permutation() == (1, 0)
    assert MapAttr.identity(0).permutation() == ()
    for results in [(d0, d0), (d0,), (d0, 0), (d0, d1 + 1), (d0, d1 * 2), (d0, d1 // 2), (d0, d0 * d1), (d0, s0)]:
        assert MapAttr.get(2, results).permutation() is None


def test_dimensions_must_exist():
    with pytest.raises(ValueError, match="beyond"):
        MapAttr.get(1, (d1,))


def test_symbols():
    assert MapAttr.get(1, (d0 * s0, symbol("a"))).symbols() == ("a", "s0")
    assert MapAttr.get(1, (d0 * s0,)).with_symbols({"s0": 4}) is MapAttr.get(1, (d0 * 4,))
