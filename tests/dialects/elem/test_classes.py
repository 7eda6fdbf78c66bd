"""The table and the classes of its ops say the same."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f32

from cuesta.dialects import elem
from cuesta.dialects.elem import table_ops


@pytest.mark.parametrize("row", elem.TABLE.values(), ids=lambda row: row.name)
def test_a_row_has_its_class(row: elem.Row) -> None:
    name = "".join(part.capitalize() for part in row.name.split("_")) + "Op"
    op_class = getattr(elem, name)
    assert name in elem.__all__
    assert elem.OPS[row.name] is op_class is elem.op_class_of(row.name)
    assert op_class.row is row
    assert op_class.name == f"elem.{row.name}"
    assert op_class.__doc__ == row.reference


def test_a_class_has_its_row() -> None:
    classes = {one for one in vars(table_ops).values() if isinstance(one, type) and issubclass(one, elem.TableOp)}
    assert classes - {elem.TableOp} == set(elem.OPS.values())
    assert list(elem.OPS) == list(elem.TABLE)
    assert classes - {elem.TableOp} <= set(elem.ELEM.operations)


def test_an_op_is_of_its_class() -> None:
    one = elem.constant(1.0, f32)
    made = elem.make("div", one.result, one.result)
    assert isinstance(made, elem.DivOp)
    assert not isinstance(made, elem.MulOp)
