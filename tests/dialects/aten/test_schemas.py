from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from cuesta.dialects.aten import schemas


def torch_schema(overload: str) -> torch._C.FunctionSchema | None:
    """None where torch makes the operator when a part of it is imported that nothing here imports: some of `prims`."""
    namespace, _, rest = overload.replace("::", ".").partition(".")
    name, _, suffix = rest.rpartition(".")
    if namespace == "prims" and not hasattr(torch.ops.prims, name):
        return None
    return getattr(getattr(getattr(torch.ops, namespace), name), suffix)._schema


def every_overload() -> list[str]:
    table = schemas.load_table()
    return [*table["operations"], *table["calls"]]


def test_every_schema_agrees_with_torch():
    if torch.__version__.partition("+")[0] != schemas.load_table()["torch"]:
        pytest.skip("the table was written with another torch")
    for overload in every_overload():
        schema, theirs = schemas.lookup(overload), torch_schema(overload)
        assert schema is not None
        if theirs is None:
            continue
        assert [argument.name for argument in schema.arguments] == [argument.name for argument in theirs.arguments]
        assert [argument.keyword_only for argument in schema.arguments] == [a.kwarg_only for a in theirs.arguments]
        assert len(schema.results) == len(theirs.returns), overload
        assert schema.mutates == theirs.is_mutable
        for argument, their in zip(schema.arguments, theirs.arguments, strict=True):
            assert isinstance(argument.default, schemas.Required) == (not their.has_default_value()), overload
            assert argument.may_be_none == isinstance(their.type, torch.OptionalType), (overload, argument)


def test_details_of_a_schema():
    schema = schemas.lookup("aten.index.Tensor")
    assert schema is not None
    indices = schema.argument("indices")
    assert indices is not None
    assert (indices.type, indices.element, indices.is_list) == ("Tensor?[]", "Tensor", True)
    assert indices.elements_may_be_none and not indices.may_be_none
    assert schema.is_pure and not schema.is_view

    dims = schemas.lookup("aten.sum.dim_IntList")
    assert dims is not None
    assert [argument.type for argument in dims.arguments] == ["Tensor", "int[]?", "bool", "ScalarType?"]
    assert [argument.default for argument in dims.arguments][2:] == [False, None]
    assert dims.positional == 3


def test_effects_are_known():
    copy, dropout, view, split = map(
        schemas.lookup, ["aten.copy_.default", "aten.native_dropout.default", "aten.view.default", "aten.split.Tensor"]
    )
    assert copy and copy.mutates and not copy.is_pure
    assert dropout and dropout.random and not dropout.is_pure
    assert view and view.is_view and view.is_pure
    assert split and split.is_view and split.results[0].is_list


def test_names_outside_aten():
    assert schemas.lookup("prims::convert_element_type.default") is not None
    assert not schemas.has_operation("prims::convert_element_type.default")
    assert schemas.lookup("aten::add.Tensor") is schemas.lookup("aten::add.Tensor")
    assert schemas.lookup("mylib::foo.default") is None


def test_the_dialect_does_not_import_torch():
    code = "import sys, cuesta.dialects.aten as a; list(a.ATEN.operations); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
