"""Whether the two sides of a law are the same, for all operands that can be tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import cast

import torch
from torch import Tensor
from xdsl.ir import Attribute

from cuesta.dialects import elem
from cuesta.laws import bit_vectors
from cuesta.laws.evaluation import Evaluation
from cuesta.laws.values import TYPES, Numbers, combinations, numbers_of, pick
from cuesta.transforms.algebra.law import Condition, Law, row_named
from cuesta.transforms.algebra.terms import Apply, Constant, Reduce, Term, Type, Variable, subterms

PAIRS = 10_000_000
"""How many operands are tried in a type of 16 bits."""
_PAIRS_WIDE = 2_000_000
_ROWS_OF_CONSTANTS = 70_000
_SAMPLES_OF_REDUCTIONS = 20_000
_POINTS = {"any": (0, 1, 2, 3, 7, 8), "some": (1, 2, 3, 7, 8), "one": (1,), "none": (0,)}


class NotALawError(AssertionError):
    """An equation that does not hold, or a rewrite that does not do what its law says."""


@dataclass(frozen=True)
class Proof:
    """What was checked of a law."""

    law: Law
    tried: Mapping[str, int]
    """For each choice of types how many operands were tried."""
    complete: tuple[str, ...]
    """The choices of types for which those were all there are."""
    by_z3: tuple[str, ...]
    """The choices of types for which z3 has proved it for all operands."""


def check_equation(law: Law, *, effort: float = 1.0) -> Proof:
    """Checks that both sides are the same. Errors: NotALawError with the first operands for which they are not."""
    tried: dict[str, int] = {}
    complete: list[str] = []
    by_z3: list[str] = []
    for types in choices_of_types(law):
        name = ", ".join(f"{kind.name} = {scalar}" for kind, scalar in types.items())
        tried[name], is_complete = _try_operands(law, types, effort)
        if is_complete:
            complete.append(name)
        if bit_vectors.applies(law, types):
            problem = bit_vectors.refute(law, types)
            if problem is not None:
                raise NotALawError(f"{law.name} ({law}) is wrong for {name}: {problem}")
            by_z3.append(name)
    if not tried:
        raise NotALawError(f"{law.name} ({law}) holds for no types at all")
    if not any(tried.values()):
        raise NotALawError(f"{law.name} ({law}): no constants meet its conditions")
    return Proof(law, tried, tuple(complete), tuple(by_z3))


def choices_of_types(law: Law) -> Iterator[dict[Type, Attribute]]:
    """Every choice of concrete types that the law's kinds, and its conditions on types alone, allow."""
    kinds = list(dict.fromkeys(law.types.values()))
    options = [[scalar for letter in law.kinds_of(kind) for scalar in TYPES[letter]] for kind in kinds]
    on_types = [
        condition
        for condition in law.conditions
        if isinstance(condition, Condition) and all(isinstance(one, Type) for one in condition.of)
    ]
    for chosen in product(*options):
        types = dict(zip(kinds, chosen, strict=True))
        holds = all(condition.holds(*(types[cast("Type", one)] for one in condition.of)) for condition in on_types)
        if holds and _rows_are_defined(law, types):
            yield types


def _rows_are_defined(law: Law, types: Mapping[Type, Attribute]) -> bool:
    return all(
        elem.kind_of(types[law.types[term.operands[0]]]) in row_named(term.row).kinds
        for side in (law.lhs, law.right)
        for term in subterms(side)
        if isinstance(term, Apply)
    )


def _try_operands(law: Law, types: Mapping[Type, Attribute], effort: float) -> tuple[int, bool]:
    """How many operands were tried, and whether those were all."""
    leaves = list(dict.fromkeys(term for term in subterms(law.lhs) if isinstance(term, Variable | Constant)))
    variables = [leaf for leaf in leaves if isinstance(leaf, Variable)]
    constants = [leaf for leaf in leaves if isinstance(leaf, Constant)]
    narrow = all(scalar in (*TYPES["b"], *TYPES["f"][:2], TYPES["i"][0], TYPES["u"][0]) for scalar in types.values())
    count = max(1000, int((PAIRS if narrow else _PAIRS_WIDE) * effort))
    rows, all_rows = rows_of_constants(law, types, constants, count)
    if constants and not len(rows[0]):
        return 0, False
    reductions = [term for term in subterms(law.lhs) if isinstance(term, Reduce)]
    if reductions:
        return _try_reductions(law, reductions[0], types, variables, constants, rows, effort), False
    columns = [numbers_of(types[variable.type]) for variable in variables]
    if constants:
        index = torch.arange(len(rows[0]))
        columns.append(Numbers(index, index[:256], complete=all_rows))
    tried = 0
    total = 1
    for column in columns:
        total *= len(column.many)
    for chosen in combinations(columns, count) if columns else [[]]:
        values: dict[Term, Tensor] = dict(zip(variables, chosen, strict=False))
        for constant, row in zip(constants, rows, strict=True):
            values[constant] = pick(row, chosen[-1])
        tried += len(chosen[0]) if chosen else 1
        _compare(law, types, values, leaves, None)
    return tried, all(column.complete for column in columns) and tried >= total


def rows_of_constants(
    law: Law, types: Mapping[Type, Attribute], constants: list[Constant], count: int
) -> tuple[list[Tensor], bool]:
    """Numbers for the constants that meet the conditions, and whether those are all there are."""
    if not constants:
        return [], True
    columns = [numbers_of(types[constant.type]) for constant in constants]
    pieces: list[list[Tensor]] = []
    wanted = min(count, _ROWS_OF_CONSTANTS)
    total = 1
    for column in columns:
        total *= len(column.many)
    for chosen in combinations(columns, wanted):
        kept = torch.ones(len(chosen[0]), dtype=torch.bool)
        values: dict[Term, Tensor] = dict(zip(constants, chosen, strict=True))
        for condition in law.conditions:
            if isinstance(condition, Term):
                evaluation = Evaluation(law, types, values)
                kept = kept & evaluation.value(condition) & evaluation.defined
            elif any(isinstance(one, Constant) for one in condition.of):
                facts: list[list[object]] = []
                for one in condition.of:
                    if isinstance(one, Constant):
                        facts.append(values[one].tolist())
                    elif isinstance(one, Type):
                        facts.append([types[one]] * len(kept))
                    else:
                        raise ValueError(
                            f"{law.name}: {condition} is of constants or of the number of points, not both"
                        )
                kept = kept & torch.tensor([bool(condition.holds(*each)) for each in zip(*facts, strict=True)])
        pieces.append([pick(column, kept.nonzero()[:, 0]) for column in chosen])
    complete = all(column.complete for column in columns) and total <= 1.7 * wanted
    return [torch.cat(parts) for parts in zip(*pieces, strict=True)], complete


def _try_reductions(
    law: Law,
    reduction: Reduce,
    types: Mapping[Type, Attribute],
    variables: list[Variable],
    constants: list[Constant],
    rows: list[Tensor],
    effort: float,
) -> int:
    tried = 0
    samples = max(100, int(_SAMPLES_OF_REDUCTIONS * effort))
    generator = torch.Generator().manual_seed(samples)
    for points in _POINTS[reduction.points]:
        values: dict[Term, Tensor] = {}
        for variable in variables:
            known = numbers_of(types[variable.type])
            width = 1 if variable.invariant else points
            drawn = torch.randint(0, 1 << 40, (samples, width), generator=generator)
            # Special numbers, and those that have nothing special, in equal parts.
            special = torch.randint(0, 2, (samples, width), generator=generator, dtype=torch.bool)
            many, few = pick(known.many, drawn % len(known.many)), pick(known.special, drawn % len(known.special))
            values[variable] = torch.where(special, few, many)
        if constants:
            index = torch.randint(0, len(rows[0]), (samples,), generator=generator)
            values |= {one: pick(row, index).unsqueeze(-1) for one, row in zip(constants, rows, strict=True)}
        _compare(law, types, values, [*variables, *constants], points)
        tried += samples
    return tried


def _compare(
    law: Law,
    types: Mapping[Type, Attribute],
    values: Mapping[Term, Tensor],
    leaves: list[Variable | Constant] | list[Variable],
    points: int | None,
) -> None:
    left = Evaluation(law, types, values, points)
    before = left.value(law.lhs)
    right = Evaluation(law, types, values, points)
    after = right.value(law.right)
    wrong = ~same(before, after, law, points) | ~right.defined
    wrong = wrong & left.defined
    if not bool(wrong.any()):
        return
    place = int(wrong.reshape(wrong.shape[0], -1).any(-1).nonzero()[0, 0]) if wrong.dim() else 0

    def shown(value: Tensor) -> str:
        row = value if value.dim() == 0 else value[min(place, value.shape[0] - 1)]
        return repr(row.item() if row.numel() == 1 else row.tolist())

    name = ", ".join(f"{kind.name} = {scalar}" for kind, scalar in types.items())
    operands = ", ".join(f"{leaf} = {shown(values[leaf])}" for leaf in leaves)
    over = "" if points is None else f" over {points} points"
    raise NotALawError(
        f"{law.name} ({law}) is wrong for {name}{over}: with {operands or 'no operands'} "
        f"the left-hand side is {shown(before)}, the right-hand side {shown(after)}"
    )


def same(before: Tensor, after: Tensor, law: Law, points: int | None = None) -> Tensor:
    """Where two results are the same as far as a law says that they are."""
    if not before.dtype.is_floating_point:
        if before.dtype in (torch.uint16, torch.uint32, torch.uint64):
            before, after = before.view(_SIGNED[before.dtype]), after.view(_SIGNED[after.dtype])
        return before == after
    equal = before == after
    if not law.either_zero:
        equal = equal & (torch.signbit(before) == torch.signbit(after))
    if not law.exact:
        error = (before.double() - after.double()).abs()
        equal = equal | (error <= (points or 2) * torch.finfo(before.dtype).eps * before.double().abs())
    return equal | (before.isnan() & after.isnan())


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
