"""One random program, called in eager and compiled: is everything that a caller can see the same?

Compared are values (by the rules of `cuesta.testing`: float64 is the judge of roundings), dtypes, sizes, strides,
offsets, which tensors are one object, share memory or count changes together, inputs and what they are views of after
the call, gradients, what requires one, the state of the random generator; and that there is an error where eager has
one.
"""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cuesta.testing import compare
from tests.fuzz.calls import exclusions
from tests.fuzz.calls.case import Case
from tests.fuzz.calls.outcomes import Call, Make, Raised, Results, captured_numbers, donated_buffers
from tests.fuzz.calls.packaged import is_of_numbers, packaged_outcomes
from tests.fuzz.calls.witnesses import (
    Backend,
    asked_alone,
    asks_gradients_twice,
    decomposed,
    explained,
    has_no_kernel,
    needs_what_is_overwritten,
    nudged_outcomes,
    outcomes,
    with_kernels,
)
from tests.support.differential import difference

SPREAD = 4.0
"""So many times as far as the furthest of the runs with nudged numbers a result may lie."""
CAPTURE = ("aot_eager", "eager")
"""Backends that compile nothing: what they do, too, is Dynamo's or AOTAutograd's. (Dynamo makes of `_foreach_lerp_`
with a number what reads and writes the list three times: tensors that overlap in it get other values than in eager.)
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`right`, `refused` (by eager and by us), `beyond eager` (which has no kernel for a type: ours gives results),
    `excluded` (for a reason with a name), `capture` (PyTorch's own: its `aot_eager` or `eager` does the same),
    `in eager` (right, but eager ran a graph of which our capture failed, and that of `aot_eager` does not) or
    `finding`.
    """

    kind: str
    what: str = ""
    aspects: frozenset[str] = frozenset()
    """What is off: `error`, `no error`, or names of results."""
    problems: tuple[str, ...] = ()
    """What is off about results, one by one."""

    @property
    def mechanism(self) -> str:
        """What findings of one mechanism have in common: numbers and names left out."""
        first = self.what.split("\n", 1)[0]
        first = re.sub(r"0x[0-9a-f]+|\[[^\]]*\]|\([^)]*\)|'[^']*'", "_", first)
        return re.sub(r"-?\d[\d.e+-]*", "N", first)[:160]


def judge(case: Case) -> Verdict:
    """The verdict on a case, all of whose calls go through one compiled function, and if it says so, one package."""
    verdict = verdict_with(case, "cuesta")
    if verdict.kind == "right" and case.packaged:
        return _of_a_package(case)
    if verdict.kind == "in eager" and any(isinstance(made, Raised) for _, made in outcomes(case, "aot_eager")):
        return Verdict("capture", verdict.what)
    if verdict.kind != "finding":
        return verdict
    if reason := exclusions.reason(case, verdict.what):
        return Verdict("excluded", reason)
    aspects = verdict.aspects
    if verdict.problems:  # some may be excused, and the others PyTorch's
        aspects = _aspects([one for one in verdict.problems if not exclusions.reason(case, one)])
        if not aspects:
            return Verdict("excluded", exclusions.reason(case, verdict.problems[0]))
    if any(aspects <= captured for captured in _captured(case)):
        return Verdict("capture", verdict.what)
    return verdict


SUMS_OF_8_BITS = '"add_stub" not implemented for \'Float8_'
"""What PyTorch says where two gradients of one tensor of floats of 8 bits meet."""


def _of_a_package(case: Case) -> Verdict:
    """The verdict on a case that goes through a package; PyTorch's own is what `torch.export` does alike."""
    unit = narrowest(case.source)
    found = problems_of_a_package(*case.functions(), case.calls, case.backward, unit)
    if not found:
        return Verdict("right")
    if all(SUMS_OF_8_BITS in one for one in found):  # docs/packages.md
        return Verdict("excluded", "nobody adds up gradients of 8 bits")
    theirs = problems_of_a_package(*case.functions(), case.calls, case.backward, unit, "torch.export")
    kind = "capture" if _aspects(found) <= _aspects(theirs) else "finding"
    return Verdict(kind, "of a package: " + "\n".join(found), frozenset(["of a package"]))


def problems_of_a_package(
    make: Make,
    program: Callable[..., Any],
    calls: Sequence[tuple[int, ...]],
    backward: str,
    unit: float,
    through: str = "cuesta",
) -> list[str]:
    """What is off about the first call through a package with which anything is."""
    for call, actual in packaged_outcomes(make, program, calls, backward, through):
        said = _verdict(call, actual, unit, f"call of {call.sizes}: ")
        found = [one for one in said.problems if is_of_numbers(one)]
        if said.kind == "finding" and (found or not said.problems):
            return found or [said.what]
    return []


def verdict_with(case: Case, backend: Backend, corrected: Callable[[], Any] | None = None) -> Verdict:
    """The verdict on a case with any backend, before anything is excused: on the first call with which something is
    off. Eager may be `corrected` by a mode.
    """
    verdicts = list(_verdicts(case, backend, corrected=corrected))
    finding = next((one for one in verdicts if one.kind == "finding"), None)
    rarer = (next((one for one in verdicts if one.kind == kind), None) for kind in ("beyond eager", "in eager"))
    refused = any(one.kind == "refused" for one in verdicts)
    return finding or next(filter(None, rarer), None) or Verdict("refused" if refused else "right")


def _captured(case: Case) -> Iterator[frozenset[str]]:
    """What is off, and the same in the hands of backends that compile nothing, more and more of it."""
    unit = narrowest(case.source)
    ours, captured = list(outcomes(case, "cuesta")), frozenset[str]()
    nudged = functools.cache(lambda: nudged_outcomes(case, unit > 1e-4))
    for backend in CAPTURE:
        theirs = list(outcomes(case, backend))
        errors = [made.error for _, made in theirs if isinstance(made, Raised)]
        captured |= explained(ours, theirs, unit, nudged)
        if case.backward and errors:  # they may be of the backward pass, and hide what is off before
            forward = replace(case, backward="")
            captured |= explained(list(outcomes(forward, "cuesta")), list(outcomes(forward, backend)), unit)
        yield captured
        if errors:
            captured |= explained(ours, list(outcomes(case, with_kernels)), unit, nudged)
            yield captured
        if errors and len(case.calls) > 1:  # it may compile a call of its own sizes where it fails for all
            captured |= explained(ours, asked_alone(case, backend, ours, theirs), unit, nudged)
            yield captured
    if any(needs_what_is_overwritten(made) for _, made in ours):
        yield captured | _overwritten(case, ours)
    if any(asks_gradients_twice(made) for _, made in ours):
        yield captured | _asked_twice(case)
    if "while_loop(" in case.source:  # its gradient asks how often it ran: otherwise nothing of it is captured
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            yield captured | explained(ours, list(outcomes(case, "aot_eager")), unit)


def _overwritten(case: Case, ours: Sequence[tuple[Call, Any]]) -> frozenset[str]:
    """`error`, if a gradient needs what was written to wherever PyTorch's partitioner chose what is saved, too, and all
    is right before gradients are asked for. The gradients of a graph are one function to autograd: it needs all that
    it has saved, also for the gradient of one result.
    """
    theirs = list(outcomes(case, decomposed))
    ended, expected = ([needs_what_is_overwritten(made) for _, made in each] for each in (ours, theirs))
    is_right = verdict_with(replace(case, backward=""), "cuesta").kind in ("right", "refused")
    return frozenset(["error"] if ended == expected and is_right else [])


def _asked_twice(case: Case) -> frozenset[str]:
    """`error`, if a gradient of a gradient is refused, PyTorch's `aot_eager` has it wrong as well, aloud or not, and
    all is right before, or ends in the same way (where the program itself asks for it).
    """
    theirs = verdict_with(case, "aot_eager")
    before = list(outcomes(replace(case, backward=""), "cuesta"))
    is_right = verdict_with(replace(case, backward=""), "cuesta").kind in ("right", "refused")
    ends_so = is_right or any(asks_gradients_twice(made) for _, made in before)
    return frozenset(["error"] if theirs.kind == "finding" and ends_so else [])


def aspects_off(call: Call, actual: Any, unit: float) -> frozenset[str]:
    """What is off about what a call leaves behind: `error`, `no error`, or names of results."""
    return _verdict(call, actual, unit, "").aspects


def _verdicts(case: Case, backend: Backend, corrected: Callable[[], Any] | None = None) -> Iterator[Verdict]:
    """The verdicts on the calls of a case, up to the first finding."""
    for number, (call, actual) in enumerate(outcomes(case, backend, corrected)):
        where = f"call {number} of {call.sizes}: " if number else ""
        verdict = _verdict(call, actual, narrowest(case.source), where)
        yield verdict
        if verdict.kind == "finding":
            return


def _verdict(call: Call, actual: Any, unit: float, where: str) -> Verdict:
    expected = call.eager
    if isinstance(expected, Raised) and isinstance(actual, Raised):
        return Verdict("refused")
    if isinstance(expected, Raised) and has_no_kernel(expected.error):
        return Verdict("beyond eager", f"{where}eager {expected}")
    if isinstance(expected, Raised):
        return Verdict("finding", f"{where}no error, but eager {expected}", frozenset(["no error"]))
    if isinstance(actual, Raised):
        return Verdict("finding", f"{where}{actual}", frozenset(["error"]))
    problems = differences(actual, call, unit)
    if problems:
        return Verdict("finding", where + "\n".join(problems), _aspects(problems), tuple(problems))
    return Verdict("in eager", where + call.uncaptured[0]) if call.uncaptured else Verdict("right")


def _aspects(problems: Sequence[str]) -> frozenset[str]:
    return frozenset(problem.split(": ", 1)[0] for problem in problems)


def narrowest(source: str) -> float:
    """The distance of 1 to the next number in the narrowest floating type that a program names."""
    if re.search(r"bfloat16|autocast", source):
        return torch.finfo(torch.bfloat16).eps
    return torch.finfo(torch.float16 if re.search(r"float16|half\(", source) else torch.float32).eps


def differences(actual: Results, call: Call, unit: float = torch.finfo(torch.float32).eps) -> list[str]:
    """What is not as in eager. A value of 16 bits on the way is good for a last digit of it (`unit`) in the results:
    eager may be right by luck, or round more often.
    """
    expected: Results = call.eager
    # One backward pass is traced for all results: who asks for the gradients of some gets zeros where eager gives None.
    zeros = {
        name
        for name, value in actual.items()
        if name.startswith("gradient") and _is_zero_for_none(value, expected.get(name, value))
    }
    unused = {name + aspect for name in zeros for aspect in ("", " type", " is", " autograd")}
    found = [f"{name}: eager has none" for name in actual if name not in expected and name not in unused]
    for name, want in expected.items():
        if name in unused:
            continue
        have = actual.get(name)
        if not isinstance(want, Tensor) or not isinstance(have, Tensor):
            if type(have) is not type(want) or (have != want and not (have != have and want != want)):
                found.append(f"{name}: {have!r}, eager {want!r}")
        elif have.dtype != want.dtype or have.shape != want.shape or have.device != want.device:
            found.append(f"{name}: {_described(have)}, eager {_described(want)}")
        elif not _equal(have, want).all() and (said := _values_off(name, have, want, call, unit)):
            found.append(f"{name}: values: {said}")
    return found


def _values_off(name: str, have: Tensor, want: Tensor, call: Call, unit: float) -> str | None:
    """What is wrong with values that are not eager's: they are further from the truth than eager's, and than those of
    the runs whose functions are off by a digit. Where a program has no truth (autocast leaves float64 alone, so that an
    update in place finds other tensors saved; float64 is drawn of more random bits, and everything after it of others),
    and of digits that are read as integers, eager's result is the middle.
    """
    judged = _truth(call).get(name)
    middle, allowed = want, 0.0
    if isinstance(judged, Tensor) and judged.shape == want.shape:
        ulps = 4.0 * max(1.0, unit / _precision(want)) if unit > 1e-4 else 4.0
        compared = compare(name, have, want, judged, strides=False, ulps=ulps)
        said = None if compared.passes else str(compared)
        if _has_fraction(want):
            middle, allowed = judged, compared.allowed_largest
    else:
        said = difference(have, want)
    if said is None or want.dtype == torch.bool or not (_has_fraction(want) or call.reads_digits):
        return said
    runs = call.nudged if _has_fraction(want) else call.nudged_halves
    if judged is None and unit > 1e-4 and _has_fraction(want):
        runs = [*runs, *call.nudged_halves]  # 16 bits on the way, of which nothing else says what they are good for
    return None if _is_within(have, middle, [run.get(name) for run in runs if isinstance(run, dict)], allowed) else said


def _truth(call: Call) -> Results:
    """Results in float64 that are of the random numbers that eager draws; none, if there are no such. (16 bits draw
    others than float32, also where they leave the generator alike.)
    """
    states = [name for name in call.eager if name.startswith("random state")]
    for kind in ("truth", "truth_of_draws"):
        truth = getattr(call, kind)
        if isinstance(truth, dict) and all(torch.equal(truth[name], call.eager[name]) for name in states):
            return truth
        if not isinstance(truth, dict) or call.draws_halves:
            break
    return {}


def _is_within(have: Tensor, middle: Tensor, runs: list[Any], allowed: float) -> bool:
    """Whether each element is as near to the middle as those of nudged runs are, but for a factor."""
    runs = [run for run in runs if isinstance(run, Tensor) and run.shape == middle.shape]
    if not runs:
        return False
    spread = torch.stack([_distance(run, middle) for run in runs]).amax(0)
    return bool(((_distance(have, middle) <= allowed + SPREAD * spread) | _equal(have, middle)).all())


def _distance(a: Tensor, b: Tensor) -> Tensor:
    if not _has_fraction(a):
        return (a.to(torch.int64) - b.to(torch.int64)).abs().double()
    wide = torch.complex128 if a.is_complex() else torch.float64
    return (a.to(wide) - b.to(wide)).abs()


def _has_fraction(value: Tensor) -> bool:
    return value.dtype.is_floating_point or value.dtype.is_complex


def _precision(value: Tensor) -> float:
    return torch.finfo(value.dtype).eps if value.is_floating_point() or value.is_complex() else 1.0


def _is_zero_for_none(value: Any, want: Any) -> bool:
    return want is None and isinstance(value, Tensor) and not value.any()


def _described(value: Tensor) -> str:
    return f"{value.dtype} of {tuple(value.shape)} on {value.device}"


def _equal(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype.itemsize == 1 and a.dtype == b.dtype:
        return a.contiguous().view(torch.uint8) == b.contiguous().view(torch.uint8)
    return (a == b) | ((a != a) & (b != b))


def show(
    inputs: Make,
    program: Callable[..., Any],
    calls: list[tuple[int, ...]],
    settings: dict[str, Any],
    backward: str,
    captures: bool = False,
    packaged: bool = False,
) -> None:
    """Prints what is wrong, for the script of a finding."""
    with donated_buffers(backward != "twice"), captured_numbers(captures):
        _show(inputs, program, calls, settings, backward)
    if packaged:
        found = problems_of_a_package(inputs, program, calls, backward, torch.finfo(torch.float32).eps)
        print("\n    ".join(["through a package:", *found]) if found else "through a package: right")


def _show(
    inputs: Make, program: Callable[..., Any], calls: list[tuple[int, ...]], settings: dict[str, Any], backward: str
) -> None:
    compiled = torch.compile(program, backend="cuesta", **settings)
    for sizes in calls:
        call = Call(program, inputs, sizes, backward)
        expected, actual = call.eager, call.compiled(compiled)
        if isinstance(expected, Raised) or isinstance(actual, Raised):
            print(f"{sizes}: compiled: {_told(actual)}\n    eager: {_told(expected)}")
            if isinstance(actual, Raised) and not isinstance(expected, Raised):
                traceback.print_exception(actual.error)
            continue
        print(f"{sizes}: " + ("\n    ".join(differences(actual, call)) or "right"))


def _told(result: Any) -> str:
    return str(result) if isinstance(result, Raised) else "results"
