from __future__ import annotations

import math
import random

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from cuesta.dialects import aten, sym
from cuesta.dialects.aten import (
    ATEN,
    CallArguments,
    CallLike,
    Device,
    DType,
    LayoutKind,
    MemoryFormat,
    Operand,
    schemas,
)
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.func import FUNC
from cuesta.dialects.layout import tensor_type

F32 = aten.dtype_to_type("float32")
T = "tensor<4xf32>"


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, FUNC, Test, sym.SYM):
        context.load_dialect(dialect)
    context.register_dialect("aten", lambda: ATEN)
    return Parser(context, text).parse_module()


def round_trip(module: ModuleOp) -> None:
    module.verify()
    text = print_text(module)
    assert print_text(parse(text)) == text
    generic = print_text(module, generic=True)
    assert print_text(parse(generic)) == text


def first_call(module: ModuleOp) -> CallLike:
    return next(op for op in module.walk() if isinstance(op, CallLike))


@pytest.mark.parametrize(
    "arguments",
    [
        "()",
        "(%x)",
        "([%x, %x], 1)",
        "(%x, [none, %x, none])",
        "(1, -1, 9223372036854775807)",
        "(1.0, -0.0, 1.0e-05, 1.0e+22, 0.1, -2.5)",
        "(inf, -inf, nan)",
        "(true, false, none)",
        "(complex(1.0, -0.0), complex(nan, inf))",
        '("mode", "", "a \\22quoted\\22 \\\\ line\\0A")',
        '("Gr\\C3\\BC\\C3\\9Fe")',
        "(s0, s0 * 2 - 1, max(s0, 3), s0 floordiv 2, (s0 mod 8) * 4, -s0)",
        "([s0 * 4, 256], [], [[1, 2], [true]])",
        "(torch.float32, torch.float8_e4m3fn, torch.contiguous_format, torch.channels_last, torch.strided)",
        '(torch.device("cuda:0"), device = torch.device("cpu"))',
        "(%x, beta = 1, alpha = 1.0)",
        "(dtype = torch.bool, layout = torch.sparse_coo, pin_memory = false, from = -1)",
    ],
)
def test_arguments_round_trip(arguments: str):
    count = arguments.count("%x")
    types = ", ".join([T] * count)
    text = f'%x = "test.op"() : () -> {T}\n%y = aten.call "mylib::foo.default"{arguments} : ({types}) -> {T}'
    module = parse(text)
    round_trip(module)
    assert f'"mylib::foo.default"{arguments}'.replace("%x", "%0") in print_text(module).replace("%x", "%0")


def test_equality_knows_types_signs_and_nan():
    of = lambda value: CallArguments.of((value,))  # noqa: E731
    assert len({of(1), of(1.0), of(True), of("1"), of(-1)}) == 5
    assert of(0.0) != of(-0.0)
    assert of(math.nan) == of(math.nan)
    assert of(DType("float32")) == of(DType("float32"))
    assert of(MemoryFormat("strided")) == of(LayoutKind("strided"))  # one text, so one attribute
    assert of((1, 2)) is of((1, 2))
    assert CallArguments.of((1,), (("a", 2),)) != CallArguments.of((1,), (("b", 2),))


def test_operands_are_numbered_in_order():
    with pytest.raises(VerifyException, match="%1 stands where %0 is due"):
        CallArguments.of((Operand(1), Operand(0)))
    with pytest.raises(ParseError, match="order of appearance"):
        parse('"test.op"() {a = #aten.arguments<(%0, %2)>} : () -> ()')
    attr = next(iter(parse('"test.op"() {a = #aten.arguments<(%0, [%1], b = 2)>} : () -> ()').ops)).attributes["a"]
    assert attr == CallArguments.of((Operand(0), (Operand(1),)), (("b", 2),))


def test_flatten_call():
    x, y = parse(f'%x, %y = "test.op"() : () -> ({T}, {T})').body.block.first_op.results  # type: ignore[union-attr]
    operands, arguments = aten.flatten_call([x, [y, None, x], 1], [("other", y)])
    assert operands == [x, y, x, y]
    assert arguments == CallArguments.of((Operand(0), (Operand(1), None, Operand(2)), 1), (("other", Operand(3)),))


def sample_leaf(argument: schemas.Argument, rng: random.Random) -> aten.Argument:
    values: dict[str, list[aten.Argument]] = {
        "Tensor": [Operand(0)],
        "Scalar": [1, 2.5, math.inf, True, sym.symbol("s0")],
        "int": [3, -1],
        "SymInt": [3, sym.symbol("s0") * 2],
        "float": [0.5, math.nan, -math.inf],
        "bool": [True, False],
        "str": ["mean", 'a "b"'],
        "ScalarType": [DType("bfloat16")],
        "Device": [Device("cuda:1")],
        "Layout": [LayoutKind("strided")],
        "MemoryFormat": [MemoryFormat("channels_last")],
        "Generator": [None],
    }
    leaf = rng.choice(values.get(argument.element, [0]))
    return (leaf, leaf) if argument.is_list else leaf


def number_operands(argument: aten.Argument, count: list[int]) -> aten.Argument:
    if isinstance(argument, Operand):
        count[0] += 1
        return Operand(count[0] - 1)
    return tuple(number_operands(element, count) for element in argument) if isinstance(argument, tuple) else argument


def test_every_op_round_trips():
    """One call of every op in the table, with arguments of every kind its schema names."""
    rng = random.Random(0)
    t4 = tensor_type((4,), F32)
    source = parse(f'%x = "test.op"() : () -> {T}')
    block = source.body.block
    x = block.first_op.results[0]  # type: ignore[union-attr]
    for overload in rng.sample(sorted(schemas.load_table()["operations"]), 500):
        schema = schemas.lookup(overload)
        assert schema is not None
        count = [0]
        positional = [sample_leaf(a, rng) for a in schema.arguments if not a.keyword_only]
        keywords = [(a.name, sample_leaf(a, rng)) for a in schema.arguments if a.keyword_only]
        arguments = CallArguments.of(
            tuple(number_operands(value, count) for value in positional),
            tuple((name, number_operands(value, count)) for name, value in keywords),
        )
        op = aten.op_class(overload).create(
            operands=[x] * count[0], result_types=[t4] * len(schema.results), properties={"arguments": arguments}
        )
        block.add_op(op)
    round_trip(source)


def test_accessors():
    call = first_call(
        parse(
            f'%x = "test.op"() : () -> {T}\n'
            f"%y = aten.convolution.default(%x, %x, none, [1, 2], [s0, 0], [1, 1], transposed = false, "
            f"output_padding = [0, 0], groups = 1) : ({T}, {T}) -> {T}"
        )
    )
    assert call.tensor("input") is call.operands[0]
    assert call.optional_tensor("bias") is None
    assert call.integers("stride") == (1, 2)
    assert call.indices("padding") == (sym.symbol("s0"), 0)
    assert call.boolean("transposed") is False
    assert call.integer("groups") == 1
    with pytest.raises(VerifyException, match="the argument padding must be a list of static integers, not s0"):
        call.integers("padding")
    with pytest.raises(VerifyException, match="has no argument called scale"):
        call.argument("scale")
    with pytest.raises(VerifyException, match="bias must be a tensor, not none"):
        call.tensor("bias")


def test_defaults_come_from_the_schema():
    call = first_call(parse(f'%x = "test.op"() : () -> {T}\n%y = aten.sum.dim_IntList(%x, 1) : ({T}) -> {T}'))
    assert call.integers("dim") == (1,)
    assert call.boolean("keepdim") is False
    assert call.dtype() is None
    randint = first_call(parse(f"%y = aten.randint.default(10, [4]) : () -> {T}"))
    assert randint.dtype() == "int64"
    index = first_call(
        parse(f'%x = "test.op"() : () -> {T}\n%y = aten.index.Tensor(%x, [none, %x]) : ({T}, {T}) -> {T}')
    )
    assert index.tensors("indices") == (None, index.operands[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"aten.add.Tensor(%x, %x, 1) : ({T}, {T}) -> {T}", "takes 2 arguments by position, but 3 are given"),
        (f"aten.add.Tensor(%x) : ({T}) -> {T}", "the argument other is missing"),
        (f"aten.add.Tensor(%x, other = %x, beta = 1) : ({T}, {T}) -> {T}", "has no argument called beta"),
        (f"aten.add.Tensor(%x, %x, self = %x) : ({T}, {T}, {T}) -> {T}", "the argument self is given twice"),
        (f"aten.relu.default(none) : () -> {T}", "the argument self has type Tensor, and cannot be none"),
        (f'aten.sum.dim_IntList(%x, "a") : ({T}) -> {T}', 'the argument dim has type int.*, and cannot be "a"'),
        (f"aten.cat.default([%x, none]) : ({T}) -> {T}", "cannot be .a tensor, none."),
        (f"aten.relu.default(%x) : ({T}) -> ({T}, {T})", "gives 1 results, but there are 2"),
        (f'aten.call "foo"(%x) : ({T}) -> {T}', "the overload reads"),
        (f'"aten.relu.default"(%x) : ({T}) -> {T}', "must be an #aten.arguments"),
        (
            f'"aten.relu.default"(%x, %x) <{{arguments = #aten.arguments<(%0)>}}> : ({T}, {T}) -> {T}',
            "refer to 1 operands, but there are 2",
        ),
    ],
)
def test_wrong_calls_are_diagnosed(call: str, message: str):
    results = call.partition(" -> ")[2]
    bound = "%y, %z" if results.startswith("(") else "%y"
    module = parse(f'%x = "test.op"() : () -> {T}\n{bound} = {call}')
    with pytest.raises(VerifyException, match=message):
        module.verify()


@pytest.mark.parametrize("value", ["none", "3", "-0.0", "nan", "true", '"text"', "[1, none]"])
def test_literals_round_trip(value: str):
    module = parse(f"%0 = aten.literal {value} : !aten.literal")
    assert f"aten.literal {value} :" in print_text(module)
    round_trip(module)


def test_dtypes():
    for name in (
        "bool",
        "uint8",
        "int64",
        "float16",
        "bfloat16",
        "complex64",
        "float8_e4m3fn",
        "float8_e5m2fnuz",
        "complex32",
    ):
        assert aten.type_to_dtype(aten.dtype_to_type(name)) == name
        assert aten.dtype_to_type(name) is aten.dtype_to_type(name)
    round_trip(parse('"test.op"() : () -> tensor<4x!aten.dtype<"float4_e2m1fn_x2">>'))
    with pytest.raises(VerifyException, match="float32 is written f32"):
        parse('"test.op"() : () -> !aten.dtype<"float32">')
    with pytest.raises(ValueError, match="no dtype has the element type index"):
        aten.type_to_dtype(parse('"test.op"() : () -> index').body.block.first_op.results[0].type)  # type: ignore[union-attr]


def test_op_classes():
    from xdsl.traits import Pure

    add = aten.op_class("aten.add.Tensor")
    assert add is aten.op_class("aten.add.Tensor") and add.name == "aten.add.Tensor"
    assert add.has_trait(Pure)
    for impure in ("aten.rand.default", "aten.copy_.default", "aten._assert_async.default"):
        assert not aten.op_class(impure).has_trait(Pure)
    with pytest.raises(KeyError, match=r"no op aten\.matmul\.default"):
        aten.op_class("aten.matmul.default")
