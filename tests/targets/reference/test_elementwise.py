from __future__ import annotations

import pytest
import torch

from cuesta.dialects import elem
from tests.support.tensors import run_tensors

DTYPES = {
    "f": {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16},
    "i": {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64},
    "u": {"ui8": torch.uint8, "ui16": torch.uint16, "ui32": torch.uint32, "ui64": torch.uint64},
    "b": {"i1": torch.bool},
}


@pytest.fixture
def pointwise(nest):
    def build(op: str, arity: int, operand: str, result: str):
        names = "abc"[:arity]
        arguments = ", ".join(f"%{name} : tensor<5x{operand}>" for name in names)
        loads = "\n".join(f"%v{name} = loops.load %{name}[%i] : tensor<5x{operand}>" for name in names)
        values = ", ".join(f"%v{name}" for name in names)
        body = f"{loads}\n%r = {op.format(values=values)}\nloops.store %r, %o[%i] : tensor<5x{result}>"
        nest_text = f"%y = loops.nest (%i : 5) outs(%o : tensor<5x{result}>) {{\n{body}\n}}"
        return nest(arguments, f"tensor<5x{result}>", nest_text)

    return build


def values_of(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([True, False, True, True, False])
    if dtype.is_floating_point:
        return torch.tensor([0.5, 1.25, -2.0, float("nan"), -0.0], dtype=dtype)
    return torch.tensor([1, 5, 3, 2, 120]).to(dtype)


@pytest.mark.parametrize("name", list(elem.TABLE))
def test_every_row_on_every_kind(pointwise, name):
    row = elem.TABLE[name]
    function = eval(f"lambda a, b=None, c=None: {row.reference}", {"torch": torch})
    for kind in row.kinds:
        for spelling, dtype in DTYPES[kind].items():
            result = "i1" if row.result == "bool" else spelling
            module = pointwise(f"elem.{name} {{values}} : {spelling}", row.arity, spelling, result)
            operands = [values_of(dtype), values_of(dtype)[[4, 3, 2, 1, 0]], values_of(dtype)[[1, 2, 0, 4, 3]]][
                : row.arity
            ]
            (y,) = run_tensors(module, operands)
            if kind == "u" and dtype is not torch.uint8:
                wide = function(*(operand.to(torch.int64) for operand in operands))
                expected = wide if result == "i1" else (wide & ((1 << min(dtype.itemsize * 8, 63)) - 1)).to(dtype)
                if dtype is torch.uint64 and result != "i1":
                    y, expected = y.view(torch.int64), wide
                assert y.tolist() == expected.tolist(), (name, spelling)
            elif row.ulp > 0 and dtype is torch.float32:
                # The value of a function depends on its operands alone: it is the nearest f32.
                expected = function(*(operand.double() for operand in operands)).float()
                torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
            else:
                torch.testing.assert_close(y, function(*operands), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("source", "result", "values", "expected"),
    [
        ("f32", "i32", [1.9, -1.9, 0.0, 2.5, -0.5], [1, -1, 0, 2, 0]),
        ("f32", "i1", [1.9, -1.9, 0.0, float("nan"), -0.0], [True, True, False, True, False]),
        ("i64", "i8", [1, 255, 256, -129, 127], [1, -1, 0, 127, 127]),
        (
            "f32",
            "bf16",
            [1.0, 1.00390625, 1.01171875, 3.3895e38, -0.0],
            [1.0, 1.0, 1.015625, 3.3895313892515355e38, -0.0],
        ),
        ("i1", "f32", [True, False, True, True, False], [1.0, 0.0, 1.0, 1.0, 0.0]),
    ],
)
def test_convert(pointwise, source, result, values, expected):
    module = pointwise(f"elem.convert {{values}} : {source} to {result}", 1, source, result)
    dtype = {"f32": torch.float32, "i64": torch.int64, "i1": torch.bool}[source]
    assert run_tensors(module, [torch.tensor(values, dtype=dtype)])[0].tolist() == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [("-3 : i64", -3), ("255 : ui8", 255), ("1.5 : f32", 1.5), ("true : i1", True), ("-inf : f32", -float("inf"))],
)
def test_constant(pointwise, text, value):
    spelling = text.rpartition(" ")[2]
    module = pointwise(f"elem.constant {text}", 0, spelling, spelling)
    assert run_tensors(module, [])[0].tolist() == [value] * 5


def test_select_keeps_nan_out(nest):
    module = nest(
        "%c : tensor<2xi1>, %a : tensor<2xf32>, %b : tensor<2xf32>",
        "tensor<2xf32>",
        """%y = loops.nest (%i : 2) outs(%o : tensor<2xf32>) {
        %d = loops.load %c[%i] : tensor<2xi1>
        %e = loops.load %a[%i] : tensor<2xf32>
        %f = loops.load %b[%i] : tensor<2xf32>
        %r = elem.select %d, %e, %f : f32
        loops.store %r, %o[%i] : tensor<2xf32>
        }""",
    )
    nan = float("nan")
    c, a, b = torch.tensor([True, False]), torch.tensor([1.0, nan]), torch.tensor([nan, 2.0])
    assert run_tensors(module, [c, a, b])[0].tolist() == [1.0, 2.0]
