"""`CallLike`: what every op that calls an ATen overload has in common (`aten.*`, `aten.call`, `loops.extern`, …)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar, cast

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.aten import schemas
from cuesta.dialects.aten.arguments import (
    Argument,
    ArgumentOrValue,
    CallArguments,
    Device,
    DType,
    LayoutKind,
    MemoryFormat,
    Operand,
)
from cuesta.dialects.aten.schemas import Default, Required, Schema
from cuesta.dialects.core.interning import Memo
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.sym.expr import Expr, IndexExpr

_T = TypeVar("_T")


class CallLike(PlainOperation):
    """An op that calls an overload: its operands, and a property `arguments` that says where each of them goes.

    The accessors below find an argument by its name in the schema, wherever it stands in the call, and fall back on
    the schema's default. They raise VerifyException when the call has no such argument, or one of another kind.
    """

    @property
    @abstractmethod
    def overload(self) -> str:
        """The overload called: `aten.add.Tensor`, or `mylib::foo.default` outside ATen."""

    @property
    def schema(self) -> Schema | None:
        """The overload's schema, if the table knows it.

        `aten::add.Tensor`, so written although there is an op `aten.add.Tensor`, is what the importer writes where the
        schema of the torch at hand is not the table's: then nothing is known.
        """
        overload = self.overload
        if overload.startswith("aten::") and schemas.has_operation(schemas.canonical_name(overload)):
            return None
        return schemas.lookup(overload)

    @property
    def signature(self) -> Schema | None:
        """What the arguments are called: the schema's, or that of an operator outside of ATen, as torch here has it."""
        return self.schema or schemas.registered(self.overload)

    @property
    def arguments_attr(self) -> CallArguments:
        """The tree of arguments."""
        attr = self.properties.get("arguments")
        if not isinstance(attr, CallArguments):
            raise VerifyException(f"{self.overload}: the property `arguments` must be an #aten.arguments")
        return attr

    # -- arguments by name --------------------------------------------------------------------------------------------

    def argument(self, name: str) -> Argument:
        """The argument of that name as the tree holds it: a constant, an `Operand`, or a tuple of them."""
        arguments = self.arguments_attr
        for keyword, value in arguments.keywords:
            if keyword == name:
                return value
        schema = self.signature
        position = None if schema is None else schema.positions.get(name)
        if schema is None or position is None:
            raise VerifyException(f"{self.overload} has no argument called {name}")
        if position < len(arguments.positional):
            return arguments.positional[position]
        default = schema.arguments[position].default
        if isinstance(default, Required):
            raise VerifyException(f"{self.overload}: the argument {name} is missing")
        return constant_of_default(default)

    def has_argument(self, name: str) -> bool:
        """Whether the overload has an argument of that name."""
        schema = self.signature
        if schema is not None:
            return name in schema.positions
        return any(keyword == name for keyword, _ in self.arguments_attr.keywords)

    def positional_values(self) -> list[ArgumentOrValue]:
        """The arguments given by position, with the operands where they belong; not those in lists."""
        return [self.operands[one.index] if isinstance(one, Operand) else one for one in self.arguments_attr.positional]

    def tensor(self, name: str) -> SSAValue:
        """The SSA value passed as that argument."""
        return self._expect(name, self.optional_tensor(name), "a tensor")

    def optional_tensor(self, name: str) -> SSAValue | None:
        """The SSA value passed as that argument, None when None is passed."""
        argument = self.argument(name)
        if argument is None:
            return None
        return self.operands[self._checked(name, argument, Operand, "a tensor").index]

    def tensors(self, name: str) -> tuple[SSAValue | None, ...]:
        """The SSA values of a list of tensors, None where the list has None."""
        what = "a list of tensors"
        return tuple(
            None if element is None else self.operands[self._checked(name, element, Operand, what).index]
            for element in self._elements(name, self.argument(name), what)
        )

    def index(self, name: str) -> IndexExpr:
        """An integer argument, static or symbolic."""
        argument = self.argument(name)
        return argument if isinstance(argument, Expr) else int(self._checked(name, argument, int, "an integer"))

    def indices(self, name: str) -> tuple[IndexExpr, ...]:
        """A list of integers, static or symbolic. One integer counts as a list of one, as ATen has it."""
        argument = self.argument(name)
        if isinstance(argument, Expr | int):
            return (argument,)
        what = "a list of integers"
        return tuple(
            element if isinstance(element, Expr) else int(self._checked(name, element, int, what))
            for element in self._elements(name, argument, what)
        )

    def integer(self, name: str) -> int:
        """A static integer argument."""
        return int(self._checked(name, self.argument(name), int, "a static integer"))

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of static integers. One integer counts as a list of one, as ATen has it."""
        return tuple(self._checked(name, value, int, "a list of static integers") for value in self.indices(name))

    def boolean(self, name: str) -> bool:
        """A bool argument."""
        return self._checked(name, self.argument(name), bool, "true or false")

    def floating(self, name: str) -> float:
        """A float argument; an integer is taken for one."""
        argument = self.argument(name)
        return float(argument) if type(argument) is int else self._checked(name, argument, float, "a float")

    def string(self, name: str) -> str:
        """A string argument."""
        return self._checked(name, self.argument(name), str, "a string")

    def dtype(self, name: str = "dtype") -> str | None:
        """A dtype by its torch name, None when None is passed."""
        argument = self.argument(name)
        return None if argument is None else self._checked(name, argument, DType, "a dtype").name

    def _checked(self, name: str, argument: Argument, kind: type[_T], what: str) -> _T:
        if not isinstance(argument, kind):
            raise VerifyException(f"{self.overload}: the argument {name} must be {what}, not {describe(argument)}")
        return argument

    def _elements(self, name: str, argument: Argument, what: str) -> tuple[Argument, ...]:
        return cast("tuple[Argument, ...]", self._checked(name, argument, tuple, what))

    def _expect(self, name: str, value: _T | None, what: str) -> _T:
        if value is None:
            raise VerifyException(f"{self.overload}: the argument {name} must be {what}, not none")
        return value

    # -- verification -------------------------------------------------------------------------------------------------

    def verify_(self) -> None:
        """Checks the arguments against the operands and, when the overload is known, against its schema."""
        arguments = self.arguments_attr
        if arguments.operand_count != len(self._operands):
            raise VerifyException(
                f"{self.overload}: the arguments refer to {arguments.operand_count} operands, "
                f"but there are {len(self._operands)}"
            )
        schema = self.schema
        if schema is not None:
            problem = _find_problem(schema, arguments)
            if problem is not None:
                raise VerifyException(f"{self.overload}: {problem}")
            _verify_result_count(schema, len(self.results))


_DEFAULTS_BY_PREFIX = {"torch.contiguous_format": MemoryFormat("contiguous_format")}


def constant_of_default(default: Default) -> Argument:
    """A schema's default as an argument: the enumerations, which the table writes as text, get their classes."""
    if isinstance(default, str) and default.startswith("torch."):
        return _DEFAULTS_BY_PREFIX.get(default) or DType(default[6:])
    return default


# Which leaves an argument of each ATen type takes. A number may stand for a tensor, as in `aten.add.Tensor(x, 2)`.
_NUMBER = (bool, int, float, complex, Expr)
_LEAVES: dict[str, tuple[type, ...]] = {
    "Tensor": (Operand, *_NUMBER),
    "Scalar": (*_NUMBER, Operand),
    "int": (int, Expr),
    "SymInt": (int, Expr),
    "float": (int, float, Expr),
    "bool": (bool, int),
    "SymBool": (bool,),
    "str": (str,),
    "ScalarType": (DType,),
    "Device": (Device,),
    "Layout": (LayoutKind,),
    "MemoryFormat": (MemoryFormat,),
}

_verified = Memo[tuple[str, CallArguments], str | None](100_000)


def _find_problem(schema: Schema, arguments: CallArguments) -> str | None:
    """What is wrong with the arguments, memoised: identical layers make identical calls."""
    key = (schema.overload, arguments)
    if key in _verified:
        return _verified[key]
    return _verified.keep(key, _check_arguments(schema, arguments))


def _check_arguments(schema: Schema, arguments: CallArguments) -> str | None:
    positional = arguments.positional
    if len(positional) > schema.positional:
        return f"takes {schema.positional} arguments by position, but {len(positional)} are given"
    given = set[str]()
    for formal, value in zip(schema.arguments, positional, strict=False):
        given.add(formal.name)
        if (problem := _check_argument(formal, value)) is not None:
            return problem
    for name, value in arguments.keywords:
        formal = schema.argument(name)
        if formal is None:
            return f"has no argument called {name}"
        if name in given:
            return f"the argument {name} is given twice"
        given.add(name)
        if (problem := _check_argument(formal, value)) is not None:
            return problem
    for formal in schema.arguments:
        if isinstance(formal.default, Required) and formal.name not in given and not formal.may_be_none:
            return f"the argument {formal.name} is missing"
    return None


def _check_argument(formal: schemas.Argument, value: Argument) -> str | None:
    if value is None:
        fits = formal.may_be_none or formal.element == "Generator"
    else:
        leaves = _LEAVES.get(formal.element)
        if leaves is None:
            return None  # a type too rare to be checked
        elements = value if formal.is_list and isinstance(value, tuple) else (value,)
        fits = all(
            formal.elements_may_be_none if element is None else isinstance(element, leaves) for element in elements
        )
    if fits:
        return None
    return f"the argument {formal.name} has type {formal.type}, and cannot be {describe(value)}"


def _verify_result_count(schema: Schema, count: int) -> None:
    expected = len(schema.results)
    if any(result.is_list for result in schema.results):
        fits = True  # a list contributes any number of results
    else:
        fits = count == expected
    if not fits:
        raise VerifyException(f"{schema.overload}: gives {expected} results, but there are {count}")


def describe(argument: Argument) -> str:
    """An argument as it stands in the text, for messages."""
    from cuesta.dialects.aten.syntax import format_constant

    if isinstance(argument, tuple):
        return f"[{', '.join(describe(element) for element in argument)}]"
    if isinstance(argument, str):
        return f'"{argument}"'
    return "a tensor" if isinstance(argument, Operand) else format_constant(argument)
