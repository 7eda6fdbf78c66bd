"""Differences that are no fault of a compiler's: each has a reason with a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import Tensor

from tests.fuzz.calls import scope
from tests.fuzz.calls.case import Case
from tests.fuzz.calls.evidence import (
    AsSaid,
    NoViews,
    PlainIntegers,
    SignedZeros,
    asks_views_of_what_is_computed,
    bits_resolved,
    eager_calls,
    has_size_said_otherwise,
    lies_row_major,
    negative_tensors,
    saved_as_they_are,
)
from tests.fuzz.calls.outcomes import Raised
from tests.fuzz.calls.witnesses import outcomes

RANDOM = ("rand", "dropout", "bernoulli", "rrelu", "normal_", "uniform_")


def random_values(statement: str) -> set[str]:
    """The values that a statement draws random numbers for, or reads to do so."""
    return set(re.findall(r"\bv\d+\b", statement)) if any(word in statement for word in RANDOM) else set()


def _draws_for_nobody(case: Case, what: str) -> bool:
    drawing = [statement for statement in case.statements if any(word in statement for word in RANDOM)]
    if len(drawing) > 1 and re.search(r"(normal|uniform|bernoulli)_\(", "\n".join(drawing[1:])):
        return "random state" in what  # the first numbers are written over
    drawn = {name for statement in case.statements for name in random_values(statement)}
    returned = set(re.findall(r"\bv\d+\b", case.results))
    return bool(drawn - returned) and all(one.startswith("random state") for one in what.splitlines())


def _draws_on_a_gpu(case: Case, what: str) -> bool:
    drawn = scope.DEVICE != "cpu" and any(word in case.source for word in RANDOM)
    return drawn and all(re.search(r" values: |^random state of the device", one) for one in what.splitlines())


def _only(what: str, aspects: str) -> bool:
    """Whether nothing but some aspects of results is off."""
    return all(re.search(rf" ({aspects}): ", one) for one in what.splitlines())


def _is_of_zeros_that_are_negated(case: Case, what: str) -> bool:
    """Whether all is as in eager once eager gives the zeros of complex numbers that it negates the other sign."""
    from tests.fuzz.calls.judge import verdict_with

    if not all(
        ": values: " in one for one in what.splitlines() if re.match(r"(output|argument|owner|gradient)\b", one)
    ):
        return False
    has_some = re.search(r"complex|polar|\dj\b", case.source) is not None
    return has_some and ": values: " in what and verdict_with(case, "cuesta", SignedZeros).kind != "finding"


def _is_asked_of_views(case: Case, what: str) -> bool:
    """Whether all is as in eager once eager's views of what is computed say that they are none."""
    from tests.fuzz.calls.judge import verdict_with

    asks = "._is_view()" in case.source and asks_views_of_what_is_computed(case)
    return asks and verdict_with(case, "cuesta", NoViews).kind in ("right", "refused")


def _is_of_integers_that_eager_misreads(case: Case, what: str) -> bool:
    """Whether what is off is as in eager once eager's products of integers read copies in rows."""
    return "_int_mm(" in case.source and ": values: " in what and _is_as_in(PlainIntegers, case, what)


def _is_of_data_that_was_saved(case: Case, what: str) -> bool:
    """Whether what is off, of gradients, is as in eager once eager saves what tensors hold in their places."""
    if ".data = " not in case.source or not all(one.startswith("gradient") for one in what.splitlines()):
        return False
    return ": values: " in what and _is_as_in(saved_as_they_are, case, what)


def _is_of_gradients_of_nothing(case: Case, what: str) -> bool:
    """Whether only gradients are off that have no elements, of subclasses in eager."""
    named = [re.match(r"gradient \d of [^:. ]+", one) for one in what.splitlines()]
    if not all(named) or ("type: <class 'torch.Tensor'>, eager" not in what and "eager has none" not in what):
        return False
    names = tuple({one[0] for one in named if one})
    made = [call.eager for call, _ in outcomes(case, "eager") if isinstance(call.eager, dict)]
    return any(
        all(_has_no_elements(results, name) and results.get(f"{name} type") not in (None, Tensor) for name in names)
        for results in made
    )


def _has_no_elements(results: Any, name: str) -> bool:
    parts = [value for key, value in results.items() if key.startswith(f"{name}.") and isinstance(value, Tensor)]
    return bool(parts) and not any(one.numel() for one in parts)


def _is_as_in(corrected: Callable[[], Any], case: Case, what: str) -> bool:
    """Whether nothing of what is off is so once eager is put right, wherever it runs; what else is off then has its own
    reasons.
    """
    from tests.fuzz.calls.judge import verdict_with

    verdict = verdict_with(case, "cuesta", corrected)
    if verdict.kind == "refused":  # by eager in any case, not only where it is corrected
        return verdict_with(case, "eager").kind == "refused"
    off = {one.split(": ", 1)[0] for one in what.splitlines()}
    return verdict.kind in ("right", "in eager") or (bool(verdict.problems) and off.isdisjoint(verdict.aspects))


def _is_of_a_kernel_for_bits(case: Case, what: str) -> bool:
    """Whether all is as in eager once eager's loops and branches take tensors with a bit."""
    from tests.fuzz.calls.judge import verdict_with

    refuses = "eager NotImplementedError: could not find kernel for HigherOrderOperator" in what
    return refuses and verdict_with(case, "cuesta", bits_resolved).kind in ("right", "refused")


def _lies_as_said(case: Case, what: str) -> bool:
    """Whether all is as in eager once eager's arithmetic lies as PyTorch's metadata function says."""
    from tests.fuzz.calls.judge import verdict_with

    if not _only(what, "strides|version|shares memory with"):
        return False
    changed: list[Any] = []
    verdict = verdict_with(case, "cuesta", lambda: AsSaid(changed))
    return bool(changed) and verdict.kind in ("right", "refused")


def _is_of_what_is_called_unsafe(case: Case, what: str) -> bool:
    return "unsafe_" in case.source and _only(what, "version")


def _is_of_the_negative_bit(case: Case, what: str) -> bool:
    return _only(what, "shares memory with|begins|is|strides|version") and bool(negative_tensors(case))


def _lies_as_capture_refuses(case: Case, what: str) -> bool:
    """Whether PyTorch's own capture refuses a program because a subclass lies otherwise than it has said."""
    if not _only(what, "strides"):
        return False
    return any(LAID in str(made.error) for _, made in outcomes(case, "aot_eager") if isinstance(made, Raised))


LAID = "__tensor_unflatten__() to have stride equal to"

EXCLUDED: tuple[tuple[str, Callable[[Case, str], bool]], ...] = (
    # torch.cond traces its branches with Dynamo in eager, too, where a size becomes a symbol.
    ("eager's torch.cond refuses a condition that is a symbol", lambda case, what: "eager Unsupported" in what),
    # So are there bodies of loops, which may not hold other tensors then.
    (
        "eager's loops refuse what they are given by closures",
        lambda case, what: (
            "while_loop(" in case.source and "eager AssertionError: Please convert all Tensors to FakeTensors" in what
        ),
    ),
    ("eager's loops and branches have no kernel for a bit", _is_of_a_kernel_for_bits),
    # PyTorch takes operators for pure that draw numbers (`eliminate_dead_code` of AOTAutograd's graphs).
    ("random numbers that nobody reads are not drawn", _draws_for_nobody),
    # docs/decisions/010-random-numbers.md
    ("random numbers on a GPU are our own", _draws_on_a_gpu),
    # It replays the views of what all steps stacked on the last of them; so does `aot_eager` where nothing breaks the
    # graph (docs/differences.md).
    (
        "AOTAutograd makes a view of a loop's result anew of another tensor",
        lambda case, what: (
            "while_loop(" in case.source
            and ("select() cannot be applied to a 0-dim" in what or "shape after application of ViewMeta" in what)
        ),
    ),
    # It is computed, in memory of its own; in eager it is a view of what it was made of (docs/differences.md).
    ("what has the negative bit is a result of its own", _is_of_the_negative_bit),
    # Of torch 2.11: we give what was computed, as it lies.
    ("AOTAutograd says otherwise how parts of a subclass lie", _lies_as_capture_refuses),
    # They are views to autograd, which counts their changes with those of what they are of (docs/differences.md).
    ("what operators called unsafe give is a view", _is_of_what_is_called_unsafe),
    # Its vectors subtract them from 0: +0 of +0 (docs/differences.md).
    ("eager's negation of complex zeros depends on how many there are", _is_of_zeros_that_are_negated),
    # What lay in memory (docs/differences.md).
    ("eager's products of integers misread a row that is a column", _is_of_integers_that_eager_misreads),
    # It saves what they are detached from; eager saves the tensors themselves (docs/differences.md).
    ("AOTAutograd saves what tensors held that are given other data", _is_of_data_that_was_saved),
    # Of a view of a subclass without elements, which it makes anew by addresses (docs/differences.md).
    ("a gradient without elements is no subclass", _is_of_gradients_of_nothing),
    # Its base is not kept, or never computed (docs/differences.md).
    ("a view of what is computed is a tensor of its own", _is_asked_of_views),
    # Its columns lie one after the other in eager; torch's fake says rows (torch 2.13).
    (
        "torch's fake of nonzero has other strides than eager's nonzero",
        lambda case, what: (
            _only(what, "strides") and not all(lies_row_major(one) for _, one in eager_calls(case, ("nonzero",)))
        ),
    ),
    # docs/differences.md
    (
        "torch's fake of what an index finds has other strides than eager's",
        lambda case, what: (
            _only(what, "strides|version") and not all(lies_row_major(one) for _, one in eager_calls(case, ("index",)))
        ),
    ),
    # It converts operands of 16 bits to 32 first, which takes the strides of 0 away; it expands operands before it
    # orders the dims by their strides, and takes what has a size of 1 in its dims for row-major; an angle of complex
    # numbers lies as they do (docs/differences.md).
    ("torch's fake of arithmetic has other strides than eager's", _lies_as_said),
    # Of a norm over a dim of one element that is counted from the last (torch 2.11), of scales of one number: what
    # follows is of a wrong size (docs/differences.md).
    ("torch's fake has another size than eager's result", lambda case, what: has_size_said_otherwise(case)),
)
"""The reason, and whether it holds for a case and what was found."""


def reason(case: Case, what: str) -> str:
    """Why a difference does not count; empty if it does."""
    return next((name for name, holds in EXCLUDED if holds(case, what)), "")
