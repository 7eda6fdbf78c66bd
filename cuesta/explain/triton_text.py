"""How much arithmetic the text of a Triton kernel is, on the device: read, and not compiled.

What is counted is what a compiler leaves of it: an expression that is there twice once, one that nobody needs not at
all, one that a loop does not change before the loop; blocks with all of their lanes, also those that are no points;
what is one number for a program in every thread; reductions as `triton_layouts.py` says. A condition that the program's
number decides is decided for every program; one that data decide is taken to be true.

The functions that the text calls are read likewise; those of libraries are in `device_arithmetic.py`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from cuesta.dialects import kernel
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.explain.nests import number_of
from cuesta.explain.triton_calls import call, functions_of, operation, unary
from cuesta.explain.triton_layouts import WARP, Layout, Limits, Shape, Spacing, joint_limits
from cuesta.explain.triton_values import (
    Node,
    Value,
    float_constant,
    joint_layout,
    joint_shape,
    live_arithmetic,
    whole_number,
)
from cuesta.targets.program import KernelText
from cuesta.targets.triton.emit_kernel import emit_kernel

PROGRAMS: Final = 1 << 12
"""Of a large grid so many programs are looked at, spread over all of it."""
_FORM: Final = frozenset({"programs", "descriptors"})
"""Choices of a schedule with which a kernel computes the same, in another text: what is read has none of them."""
_GOLDEN: Final = 0.6180339887498949


class UnreadableTextError(ValueError):
    """A text that is not understood, and what in it is not."""


@dataclass(slots=True)
class _Scope:
    """A block of the text."""

    times: Any
    """How often a program runs it; an array has that of each program that is looked at."""
    loop: int
    """In how many loops it stands."""
    branch: int
    """What stands in this many loops or fewer is not computed before the branch that it stands in."""
    known: dict[int, Node] = field(default_factory=dict[int, Node])
    """By the numbers of expressions."""


def device_arithmetic(func: kernel.FuncOp, hints: Mapping[str, int]) -> int:
    """What `arithmetic_of` counts of a kernel for a GPU; `hints` are what symbols stand for.

    Errors: UnreadableTextError, also where a size is not known.
    """
    sizes = [number_of(size, hints) for size in func.schedule.grid]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or not hints.keys() >= set(func.symbols):
        raise UnreadableTextError(f"the sizes of {func.sym_name} are not known")
    choices = func.schedule.choices
    if choices.keys() & _FORM:
        func = func.clone()
        others = {name: value for name, value in choices.items() if name not in _FORM}
        func.properties["schedule"] = kernel.ScheduleAttr.of(func.schedule.grid, **others)
    try:
        text = emit_kernel(func)
    except CuestaError as error:
        raise UnreadableTextError(f"{func.sym_name} has no text: {error}") from error
    return arithmetic_of(text, math.prod(known), hints)


def arithmetic_of(text: KernelText, programs: int, symbols: Mapping[str, int]) -> int:
    """The additions and multiplications of floats of all threads of a grid of so many programs; a fused one is two.
    `symbols` are the parameters that are no pointers.

    Errors: UnreadableTextError.
    """
    if programs <= 0:
        return 0
    try:
        return round(Reader(text, programs, symbols).run())
    except UnreadableTextError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, SyntaxError) as error:
        raise UnreadableTextError(f"the text of {text.name} is not understood: {error!r}") from error


class Reader:
    """Reads one kernel."""

    def __init__(self, text: KernelText, programs: int, symbols: Mapping[str, int]) -> None:
        self.text = text
        self.warps = text.warps
        self.programs = programs
        self.names: dict[str, Any] = {}
        count = min(programs, PROGRAMS)
        step = max(1, round(programs * _GOLDEN))
        while math.gcd(step, programs) > 1:
            step += 1
        self.looked_at = np.arange(count, dtype=np.int64) * step % programs
        self.scopes = [_Scope(1.0, 0, 0)]
        self.needed: list[Node] = []
        self.expressions: dict[tuple[Any, ...], int] = {}
        self.module = ""
        """Where the function stands that is being read: `functions` or `quick`; nowhere for the kernel itself."""
        for name, kind in text.signature:
            if kind.startswith("*"):
                self.names[name] = Value("p", spacing=Spacing.scalar(16), width=_width(kind[1:]), of=_kind(kind[1:]))
            else:
                self.names[name] = whole_number(symbols[name])

    def run(self) -> float:
        """The arithmetic of all threads."""
        (function,) = (one for one in ast.parse(self.text.source).body if isinstance(one, ast.FunctionDef))
        self.block(function.body)
        return live_arithmetic(self.needed) * self.warps * WARP

    # Values

    @property
    def scope(self) -> _Scope:
        """The present block."""
        return self.scopes[-1]

    def node(self, steps: float, values: Iterable[Value], loop: int, same: int | None = None) -> Node:
        """What is computed of values that are known in so many loops; what equals something known is that."""
        loop = max(loop, self.scope.branch)
        at = max(place for place, scope in enumerate(self.scopes) if scope.loop <= loop)
        if same is not None:
            for scope in self.scopes[: at + 1]:
                if same in scope.known:
                    return scope.known[same]
        node = Node(steps, float(np.mean(self.scopes[at].times)) * self.programs)
        for one in dict.fromkeys(node for value in values for node in value.nodes):
            node.made_of.append(one)
            one.users += 1
        if same is not None:
            self.scopes[at].known[same] = node
        return node

    def number_of(self, what: Any, operands: Iterable[Value]) -> int:
        """The number of an expression."""
        key = (what, *(one.same for one in operands))
        return self.expressions.setdefault(key, Value("i").same)

    def held(self, shape: Shape, layout: Layout | None, limits: Limits) -> int:
        """How many elements of a block each thread computes."""
        if not shape:
            return 1
        if layout is None or len(layout.vector) != len(shape):
            return max(1, math.prod(shape) // (self.warps * WARP))
        return math.prod(layout.held(shape, limits))

    def elementwise(self, what: Any, operands: Sequence[Value], steps: float, kind: str = "f") -> Value:
        """Something that takes so many instructions for each element."""
        shape = joint_shape(operands)
        layout = joint_layout(operands, shape)
        limits = joint_limits(one.limits for one in operands if one.kind == "f" and len(one.shape) == len(shape))
        each = steps * self.held(shape, layout, limits)
        found = self.made(what, operands, kind, shape, each, layout, limits=limits if kind == "f" else ())
        if steps and len(shape) > 1:
            found.nodes[0].apart = steps * self.held(shape, None, ())
        return found

    def made(
        self,
        what: Any,
        operands: Sequence[Value],
        kind: str,
        shape: Shape,
        steps: float = 0,
        layout: Layout | None = None,
        **known: Any,
    ) -> Value:
        """What is made of operands, in so many instructions of a thread; `known` are other fields of the value."""
        loop = max((one.loop for one in operands), default=0)
        same = self.number_of((what, kind, shape), operands)
        nodes = tuple(dict.fromkeys(node for one in operands for node in one.nodes))
        if steps or len(nodes) > 1:
            node = self.node(steps, operands, loop, same)
            node.size = math.prod(shape)
            nodes = (node,)
        return Value(kind, shape, nodes, loop, layout, same=same, **known)

    def read(self, pointer: Value, others: Sequence[Value], limits: Limits) -> Value:
        """What is loaded, up to limits. It may change in the present loop."""
        layout = None
        if pointer.shape:
            layout = Layout.of_access(pointer.spaced(), pointer.shape, pointer.width, self.warps)
        node = self.node(0, [pointer, *others], self.scope.loop)
        return Value(pointer.of, pointer.shape, (node,), self.scope.loop, layout, limits=limits)

    def need(self, values: Iterable[Value]) -> None:
        """What is stored, or decides something."""
        self.needed += [node for value in values for node in value.nodes]

    # Statements

    def block(self, statements: Sequence[ast.stmt]) -> Any:
        """Statements, one after the other; gives what they return."""
        for statement in statements:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.expression(value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                    for target, one in zip(targets, self.expression(value), strict=True):
                        self.names[ast.unparse(target)] = one
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.names[name] = self.expression(value)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    self.names[name] = self.expression(ast.BinOp(ast.Name(name, ast.Load()), op, value))
                case ast.Expr(value=value):
                    self.expression(value)
                case ast.For(target=ast.Name(id=name), iter=ast.Call(args=bounds), body=body):
                    self.loop(name, [self.value(self.expression(bound)) for bound in bounds], body)
                case ast.If(test=test, body=body, orelse=orelse):
                    self.branches(self.expression(test), body, orelse)
                case ast.Return(value=ast.expr() as value):
                    return self.expression(value)
                case ast.Pass():
                    pass
                case _:
                    raise UnreadableTextError(f"{self.text.name}: {ast.unparse(statement)}")
        return None

    @contextmanager
    def within(self, times: Any, *, loop: bool) -> Generator[None]:
        """The `with` block that is a block of the text, run so often for each run of that around it."""
        outer = self.scope
        level = outer.loop + loop
        self.scopes.append(_Scope(outer.times * times, level, outer.branch if loop else level))
        yield
        self.scopes.pop()

    def loop(self, name: str, bounds: Sequence[Value], body: Sequence[ast.stmt]) -> None:
        """A loop over a range: once, for all of its rounds."""
        low = bounds[0] if len(bounds) > 1 else whole_number(0)
        high = bounds[min(1, len(bounds) - 1)]
        step = bounds[2] if len(bounds) > 2 else whole_number(1)
        self.need(bounds)
        if any(one.number is None for one in (low, high, step)):
            raise UnreadableTextError(f"{self.text.name}: the rounds of a loop over {name} depend on data")
        rounds = np.maximum(0, -(-(high.number - low.number) // step.number))
        carried = {one: self.names[one] for one in _assigned(body) if one in self.names}
        with self.within(rounds, loop=True):
            level = self.scope.loop
            middle = low.number + (np.maximum(rounds, 1) - 1) // 2 * step.number
            spacing = Spacing.scalar(math.gcd(low.spaced().of_scalar, step.spaced().of_scalar))
            self.names[name] = Value("i", loop=level, spacing=spacing, number=middle)
            before: dict[str, Node] = {}
            for one, value in carried.items():
                if isinstance(value, Value):
                    before[one] = self.node(0, [value], level)
                    before[one].size = math.prod(value.shape)
                    self.names[one] = _changing(value, before[one], level)
            self.block(body)
            for one, node in before.items():
                self.hand_on(one, node)
        for one, node in before.items():
            self.names[one] = _changing(self.names[one], node, self.scope.loop)

    def hand_on(self, name: str, node: Node) -> None:
        """What a name is at the end of a round, it is at the beginning of the next."""
        node.made_of += [one for one in self.names[name].nodes if one is not node]

    def branches(self, test: Any, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        """A branch: what has a name in both is either."""
        if not isinstance(test, Value):
            self.block(body if test else orelse)
            return
        self.need([test])
        share = 1.0 if test.number is None else np.asarray(test.number, dtype=float)
        before = dict(self.names)
        with self.within(share, loop=False):
            self.block(body)
        then, self.names = self.names, before.copy()
        with self.within(1.0 - share, loop=False):
            self.block(orelse)
        for name, value in then.items():
            other = self.names.get(name)
            if isinstance(value, Value) and isinstance(other, Value) and value is not other:
                nodes = tuple(dict.fromkeys((*value.nodes, *other.nodes)))
                value = Value(value.kind, value.shape, nodes, self.scope.loop, value.layout or other.layout)
            self.names[name] = value

    # Expressions

    def expression(self, node: ast.expr) -> Any:
        """A value, a constant of Python's, or a tuple or list of them."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.names[name]
            case ast.Tuple(elts=every) | ast.List(elts=every):
                return [self.expression(one) for one in every]
            case ast.BinOp(left=left, op=op, right=right):
                return operation(self, type(op).__name__, self.expression(left), self.expression(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return operation(self, type(op).__name__, self.expression(left), self.expression(right))
            case ast.UnaryOp(op=op, operand=operand):
                return unary(self, type(op).__name__, self.expression(operand))
            case ast.Subscript(value=value, slice=ast.Tuple(elts=places)):
                return self.spread_out(self.expression(value), places)
            case ast.Call():
                return call(self, node)
            case ast.Attribute() if (name := ast.unparse(node)).startswith("tl."):
                return name
            case _:
                raise UnreadableTextError(f"{self.text.name}: {ast.unparse(node)}")

    def spread_out(self, value: Value, places: Sequence[ast.expr]) -> Value:
        """`value[:, None]`: with more dimensions, of size 1."""
        shape, spacing = list(value.shape), value.spaced()
        for place, one in enumerate(places):
            if isinstance(one, ast.Constant):
                shape.insert(place, 1)
                spacing = spacing.inserted(place)
        known: dict[str, Any] = {"of": value.of, "width": value.width, "constant": value.constant}
        if value.lanes_from is not None:
            known["lanes_from"] = shape.index(value.shape[0]), value.lanes_from[1]
        what = ("spread out", *(isinstance(one, ast.Constant) for one in places))
        return self.made(what, [value], value.kind, tuple(shape), spacing=spacing, **known)

    def value(self, one: Any) -> Value:
        """A value, also of a constant of Python's."""
        if isinstance(one, Value):
            return one
        if isinstance(one, bool | int):
            return replace(whole_number(int(one)), same=self.number_of(("whole", int(one)), ()))
        if isinstance(one, float):
            return replace(float_constant(one), same=self.number_of(("float", repr(one)), ()))
        raise UnreadableTextError(f"{self.text.name}: {one!r} is no number")

    # Functions of ours

    def called(self, name: str, arguments: Sequence[Any]) -> Any:
        """What a function of `device_functions.py` or `quick_functions.py` gives."""
        module, _, short = name.rpartition(".")
        function = functions_of(module)[short]
        outer, self.names, self.module = (self.names, self.module), {}, module
        for parameter, one in zip(function.args.args, arguments, strict=True):
            self.names[parameter.arg] = one
        found = self.block(function.body)
        self.names, self.module = outer
        return found


def _changing(value: Value, node: Node, loop: int) -> Value:
    """A value of that kind that a loop changes."""
    return Value(value.kind, value.shape, (node,), loop, value.layout, of=value.of, width=value.width)


def _assigned(body: Sequence[ast.stmt]) -> dict[str, None]:
    """The names that a block assigns."""
    every = (node for statement in body for node in ast.walk(statement))
    return dict.fromkeys(node.id for node in every if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _kind(dtype: str) -> str:
    return "f" if dtype.startswith(("fp", "bf")) else "i"


def _width(dtype: str) -> int:
    digits = "".join(one for one in dtype.partition("e")[0] if one.isdigit())
    return max(1, int(digits or 8) // 8)


__all__ = ["Reader", "UnreadableTextError", "arithmetic_of", "device_arithmetic"]
