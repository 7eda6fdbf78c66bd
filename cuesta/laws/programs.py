"""Programs made of laws: one that a law must rewrite, and some that it must not because they are nearly its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from cuesta.context import make_context
from cuesta.dialects import elem
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.laws.evaluation import Evaluation, indexable
from cuesta.laws.fold import Fold
from cuesta.laws.proof import NotALawError, choices_of_types, rows_of_constants, same
from cuesta.laws.values import numbers_of, pick
from cuesta.targets.reference import run
from cuesta.transforms.algebra.canonicalize import canonicalize_block
from cuesta.transforms.algebra.law import Law, assign_types, is_constant
from cuesta.transforms.algebra.rules import Rules
from cuesta.transforms.algebra.terms import (
    Apply,
    Constant,
    Convert,
    Number,
    Reduce,
    Select,
    Term,
    Type,
    Variable,
    subterms,
)

POINTS = 96
"""How many operands a program computes with at a time."""
_MOST_CHOICES = 6
"""Of types."""
_INNER = {"any": 5, "some": 5, "one": 1, "none": 0}


@dataclass(frozen=True)
class Example:
    """A program that computes a term, as text, and inputs for it."""

    law: Law
    term: Term
    types: Mapping[Type, Attribute]
    constants: Mapping[Term, float | int]
    points: int
    """Of the reduction."""

    @property
    def leaves(self) -> list[Variable]:
        """The variables, one argument each."""
        return list(dict.fromkeys(part for part in subterms(self.term) if isinstance(part, Variable)))

    def text(self) -> str:
        """The program: one nest, whose points have different operands."""
        return _Writer(self).program()

    def inputs(self) -> list[Tensor]:
        """Special numbers and others, for each variable in another order; 1 where the term would be undefined."""
        generator = torch.Generator().manual_seed(len(self.law.name))
        found: list[Tensor] = []
        for leaf in self.leaves:
            numbers = numbers_of(self.types[leaf.type])
            shape = (POINTS, self.points) if _varies(leaf, self.term) else (POINTS,)
            drawn = torch.randint(0, 1 << 40, shape, generator=generator)
            special = torch.randint(0, 4, shape, generator=generator) > 0
            most = numbers.special[: max(20, len(numbers.special) // 2)]
            few, many = pick(most, drawn % len(most)), pick(numbers.many, drawn % len(numbers.many))
            found.append(torch.where(special, indexable(few), indexable(many)).view(few.dtype))
        if any(isinstance(part, Reduce) for part in subterms(self.term)):
            return found
        defined = self._defined(found)
        return [torch.where(defined, indexable(one), indexable(one).new_ones(())).view(one.dtype) for one in found]

    def _defined(self, inputs: list[Tensor]) -> Tensor:
        values: dict[Term, Tensor] = dict(zip(self.leaves, inputs, strict=True))
        for constant, number in self.constants.items():
            scalar = self.types[self.law.types[constant]]
            values[constant] = torch.tensor([number], dtype=numbers_of(scalar).many.dtype)
        evaluation = Evaluation(self.law, self.types, values)
        evaluation.value(self.term)
        return evaluation.defined.expand(POINTS)


def _varies(leaf: Variable, term: Term) -> bool:
    return not leaf.invariant and any(isinstance(part, Reduce) for part in subterms(term))


class _Writer(Fold[str]):
    """The names of values, and the lines that compute them."""

    def __init__(self, example: Example) -> None:
        super().__init__(example.law, example.types, {})
        self.example = example
        self.lines: list[str] = []

    def program(self) -> str:
        example = self.example
        root = self.type(example.term)
        for leaf in example.leaves:
            if not _varies(leaf, example.term):
                self.values[leaf] = f"%{leaf.name}_0"
                self.lines.append(f"%{leaf.name}_0 = loops.load %{leaf.name}_[%i] : {self.tensor(leaf)}")
        result = self.value(example.term)
        arguments = ", ".join(f"%{leaf.name}_ : {self.tensor(leaf)}" for leaf in example.leaves)
        out = f"tensor<{POINTS}x{root}>"
        body = "\n".join(f"    {line}" for line in self.lines)
        return (
            f"func.func @main({arguments}) -> {out} {{\n"
            f"  %result = loops.nest (%i : {POINTS}) outs(%o : {out}) {{\n{body}\n"
            f"    loops.store {result}, %o[%i] : {out}\n  }}\n"
            f"  func.return %result : {out}\n}}\n"
        )

    def tensor(self, leaf: Variable) -> str:
        inner = f"{self.example.points}x" if _varies(leaf, self.example.term) else ""
        return f"tensor<{POINTS}x{inner}{self.type(leaf)}>"

    def make(self, term: Term) -> str:
        name, scalar = f"%v{len(self.values)}", self.type(term)
        if isinstance(term, Number | Constant):
            number = term.value if isinstance(term, Number) else self.example.constants[term]
            exact = elem.constant(number, scalar).value
            self.lines.append(f"{name} = elem.constant {elem.format_number(exact, elem.kind_of(scalar))} : {scalar}")
            return name
        if isinstance(term, Reduce):
            return self.reduce(term, name)
        operands = [self.value(part) for part in term.parts]
        name = f"%v{len(self.values)}"
        source = self.type(term.parts[0])
        if isinstance(term, Apply):
            self.lines.append(f"{name} = elem.{term.row} {', '.join(operands)} : {source}")
        elif isinstance(term, Convert):
            self.lines.append(f"{name} = elem.convert {operands[0]} : {source} to {scalar}")
        else:
            self.lines.append(f"{name} = elem.select {', '.join(operands)} : {scalar}")
        return name

    def reduce(self, term: Reduce, name: str) -> str:
        outer, self.lines = self.lines, []
        for part in subterms(term.body):
            # What the reduction does not change is computed before it, as the passes before would have it.
            if isinstance(part, Number | Constant) and part not in self.values:
                self.lines, inner = outer, self.lines
                self.value(part)
                self.lines = inner
        for leaf in self.example.leaves:
            if _varies(leaf, self.example.term):
                self.values[leaf] = f"%{leaf.name}_0"
                self.lines.append(f"%{leaf.name}_0 = loops.load %{leaf.name}_[%i, %j] : {self.tensor(leaf)}")
        body = self.value(term.body)
        scalar = self.type(term)
        inner = [f"  {line}" for line in (*self.lines, f"loops.yield {body} : {scalar}")]
        name = f"%r{len(self.values)}"
        head = f"{name} = loops.reduce {term.kind} (%j : {self.example.points}) {{"
        self.lines = [*outer, head, *inner, f"}} : {scalar}"]
        return name


def examples(law: Law) -> Iterator[Example]:
    """Programs of a law's left-hand side, for a few choices of types, and two of constants."""
    choices = [types for types in choices_of_types(law) if _is_common(types)] or list(choices_of_types(law))
    step = -(-len(choices) // _MOST_CHOICES)
    for types in choices[::step]:
        constants = list(dict.fromkeys(part for part in subterms(law.lhs) if isinstance(part, Constant)))
        rows, _ = rows_of_constants(law, types, constants, 4000)
        reductions = [part for part in subterms(law.lhs) if isinstance(part, Reduce)]
        points = _INNER[reductions[0].points] if reductions else 0
        count = len(rows[0]) if rows else 1
        for row in (0, count // 2) if count > 2 else range(count):
            chosen: dict[Term, float | int] = {}
            for constant, values in zip(constants, rows, strict=True):
                chosen[constant] = values[row].item()
            yield Example(law, law.lhs, types, chosen, points)


def _is_common(types: Mapping[Type, Attribute]) -> bool:
    """Whether the types are those that programs mostly compute with."""
    return all(str(scalar) in ("f32", "i64", "ui8", "i8", "i1") for scalar in types.values())


def near_misses(example: Example) -> Iterator[Example]:
    """Programs that differ from a left-hand side in one place, so that the law does not apply."""
    law = example.law
    for old in subterms(law.lhs):
        for new in _others(old, example):
            term = _replaced(law.lhs, old, new)
            types: dict[Term, Type] = {}
            if assign_types(term, law.types[law.lhs], types) is None:
                continue
            shadow = replace(law)
            object.__setattr__(shadow, "types", types)
            yield replace(example, law=shadow, term=term)
    constants = [part for part in dict.fromkeys(subterms(law.lhs)) if isinstance(part, Constant)]
    for number in _refused_constants(example, constants):
        yield replace(example, constants=number)


def _refused_constants(example: Example, constants: list[Constant]) -> Iterator[Mapping[Term, float | int]]:
    """Constants that do not meet the conditions, a few."""
    if not constants or not example.law.conditions:
        return
    free = replace(example.law, where=())
    rows, _ = rows_of_constants(free, example.types, constants, 1000)
    good = {
        tuple(map(repr, row))
        for row in zip(
            *(column.tolist() for column in rows_of_constants(example.law, example.types, constants, 1000)[0]),
            strict=True,
        )
    }
    found = 0
    for row in zip(*(column.tolist() for column in rows), strict=True):
        if tuple(map(repr, row)) not in good and found < 3:
            found += 1
            yield dict(zip(constants, row, strict=True))


def _others(old: Term, example: Example) -> Iterator[Term]:
    """What may stand in the place of a part without being it: another number, or another variable."""
    law = example.law
    if old is law.lhs:
        return
    if isinstance(old, Number):
        scalar = example.types[law.types[old]]
        others = [Number(number) for number in (3, 0, 1) if _number(number, scalar) != _number(old.value, scalar)]
        yield others[0]
    if not isinstance(old, Variable):
        inside = any(isinstance(part, Reduce) for part in subterms(law.lhs)) and not is_constant(old)
        yield Variable("other", law.types[old], invariant=not inside)
    elif sum(part is old for part in subterms(law.lhs)) > 1:
        yield Variable("other", old.type, old.invariant)


def _number(number: float | int, scalar: Attribute) -> str:
    return repr(elem.constant(number, scalar).value)


def _replaced(term: Term, old: Term, new: Term, done: list[bool] | None = None) -> Term:
    """The term with the first occurrence of a part replaced."""
    done = [False] if done is None else done
    if term is old and not done[0]:
        done[0] = True
        return new
    parts = [_replaced(part, old, new, done) for part in term.parts]
    if all(ours is theirs for ours, theirs in zip(parts, term.parts, strict=True)):
        return term
    if isinstance(term, Apply):
        return Apply(term.row, tuple(parts))
    if isinstance(term, Convert):
        return Convert(parts[0], term.to)
    if isinstance(term, Select):
        return Select(*parts)
    assert isinstance(term, Reduce)
    return Reduce(term.kind, parts[0], term.points)


def check_rewrite(law: Law) -> None:
    """Checks that the law fires on its left-hand sides and changes nothing of what they compute, and that it leaves
    its near misses alone.

    Errors: NotALawError with the program.
    """
    made = list(examples(law))
    for example in made:
        before, after, fires = _rewritten(example)
        if not fires:
            raise NotALawError(f"{law.name} does not fire on its own left-hand side:\n{print_text(before)}")
        inputs = example.inputs()
        expected, actual = run(before, inputs)[0], run(after, inputs)[0]
        assert isinstance(expected, Tensor) and isinstance(actual, Tensor)
        if not bool(same(expected, actual, law, example.points).all()):
            texts = f"{print_text(before)}becomes\n{print_text(after)}"
            raise NotALawError(f"{law.name} changes what is computed:\n{texts}")
    if not made:
        raise NotALawError(f"{law.name} is tried on no program")
    for miss in near_misses(made[0]):
        before, _, fires = _rewritten(miss, law)
        if fires:
            raise NotALawError(f"{law.name} fires on what is not its left-hand side:\n{print_text(before)}")


def _rewritten(example: Example, law: Law | None = None) -> tuple[ModuleOp, ModuleOp, bool]:
    """A program before and after, and whether the law fired."""
    law = example.law if law is None else law
    before = parse(example.text())
    with trace_rewrites() as trace:
        after = canonical(before, law)
    return before, after, any(rewrite.pattern == law.name for rewrite in trace.rewrites)


def canonical(module: ModuleOp, law: Law) -> ModuleOp:
    """The program as one law alone leaves it, verified."""
    after = module.clone()
    canonicalize_block(entry_block(after), Rules([law], fold=False))
    verify_module(after)
    verify_dominance(after)
    return after


def parse(text: str) -> ModuleOp:
    """A program from its text, verified."""
    module = CuestaParser(make_context(), text, "<law>").parse_module()
    verify_module(module)
    return module
