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
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._functorch.config as functorch_settings
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

from cuesta.testing import Float64Mode, compare
from tests.fuzz.calls import exclusions, scope
from tests.fuzz.calls.case import Case
from tests.fuzz.calls.roundings import NudgedMode
from tests.fuzz.calls.scope import chosen_outright, widened
from tests.support.differential import difference

Make = Callable[..., tuple[list[Any], list[Any]]]
Results = dict[str, Any]
SEED = 5
NUDGED, SPREAD = 8, 4.0
"""So many runs with nudged numbers, and so many times as far as the furthest of them a result may lie."""
CAPTURE = ("aot_eager", "eager")
"""Backends that compile nothing: what they do, too, is Dynamo's or AOTAutograd's. (Dynamo makes of `_foreach_lerp_`
with a number what reads and writes the list three times: tensors that overlap in it get other values than in eager.)
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`right`, `refused` (by eager and by us), `excluded` (for a reason with a name), `capture` (PyTorch's own: its
    `aot_eager` or `eager` does the same) or `finding`.
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


@dataclass(frozen=True, slots=True)
class Raised:
    """An error in place of results."""

    error: BaseException

    def __str__(self) -> str:
        name = type(self.error).__name__
        lines = [line for line in str(self.error).splitlines() if line.strip()]
        own = [f for f in traceback.extract_tb(self.error.__traceback__) if "/cuesta/" in f.filename]
        where = f" [{own[-1].filename.rsplit('/cuesta/', 1)[-1]}:{own[-1].lineno}]" if own else ""
        # Dynamo's and a backend's errors wrap the one that matters.
        inner = next((line for line in lines[1:] if re.match(r"\w*(Error|Exception)\b", line)), "")
        return f"{name}: {lines[0] if lines else ''} {inner}{where}\n" + "\n".join(lines[1:6])


def judge(case: Case) -> Verdict:
    """The verdict on a case, all of whose calls go through one compiled function."""
    verdict = verdict_with(case, "cuesta")
    if verdict.kind != "finding":
        return verdict
    if reason := exclusions.reason(case, verdict.what):
        return Verdict("excluded", reason)
    aspects = verdict.aspects
    if verdict.problems:  # some may be excused, and the others PyTorch's
        aspects = _aspects([one for one in verdict.problems if not exclusions.reason(case, one)])
        if not aspects:
            return Verdict("excluded", exclusions.reason(case, verdict.problems[0]))
    captured: frozenset[str] = frozenset()
    for backend in CAPTURE:
        captured |= _aspects_of_all_calls(case, backend)
        if case.backward and "error" in captured:  # it may be of the backward pass, and hide what is off before
            captured |= _aspects_of_all_calls(replace(case, backward=""), backend)
        if aspects <= captured:
            return Verdict("capture", verdict.what)
    return verdict


def verdict_with(case: Case, backend: str) -> Verdict:
    """The verdict on a case with any backend, before anything is excused: on the first call with which something is
    off.
    """
    verdicts = list(_verdicts(case, backend))
    finding = next((one for one in verdicts if one.kind == "finding"), None)
    refused = any(one.kind == "refused" for one in verdicts)
    return finding or Verdict("refused" if refused else "right")


def _aspects_of_all_calls(case: Case, backend: str) -> frozenset[str]:
    """What is off about any call: an error in a later one may be what ours raises."""
    return frozenset().union(*(one.aspects for one in _verdicts(case, backend, every=True)))


def _verdicts(case: Case, backend: str, every: bool = False) -> Iterator[Verdict]:
    """The verdicts on the calls of a case, up to the first finding, or on `every` one."""
    torch._dynamo.reset()
    with donated_buffers(case.backward != "twice"):  # as PyTorch asks of those who differentiate twice
        make, program = case.functions()
        compiled = torch.compile(program, backend=backend, **case.settings)
        for number, sizes in enumerate(case.calls):
            where = f"call {number} of {sizes}: " if number else ""
            verdict = _verdict(case, make, program, compiled, sizes, where)
            yield verdict
            if verdict.kind == "finding" and not every:
                return


def _verdict(
    case: Case,
    make: Make,
    program: Callable[..., Any],
    compiled: Callable[..., Any],
    sizes: tuple[int, ...],
    where: str,
) -> Verdict:
    expected = outcome(program, make, sizes, case.backward)
    actual = outcome(compiled, make, sizes, case.backward)
    if isinstance(expected, Raised) and isinstance(actual, Raised):
        return Verdict("refused")
    if isinstance(expected, Raised):
        return Verdict("finding", f"{where}no error, but eager {expected}", frozenset(["no error"]))
    if isinstance(actual, Raised):
        return Verdict("finding", f"{where}{actual}", frozenset(["error"]))
    true = functools.partial(truth, program, make, sizes, case.backward)
    moved = functools.partial(nudged, program, make, sizes, case.backward)
    problems = differences(actual, expected, true, moved, narrowest(case.source))
    if problems:
        return Verdict("finding", where + "\n".join(problems), _aspects(problems), tuple(problems))
    return Verdict("right")


def _aspects(problems: Sequence[str]) -> frozenset[str]:
    return frozenset(problem.split(": ", 1)[0] for problem in problems)


def donated_buffers(are: bool) -> Any:
    """The `with` block in which a backward pass may overwrite what was saved for it, or may not."""
    return functorch_settings.patch(donated_buffer=are)


def outcome(program: Callable[..., Any], make: Make, sizes: Sequence[int], backward: str, mode: Any = None) -> Any:
    """All that one call leaves behind, by name, or what it raised."""
    try:
        arguments, owners = make(*sizes)
        torch.manual_seed(SEED)
        with warnings.catch_warnings(), mode or nullcontext():
            warnings.simplefilter("ignore")
            return _effects(program, arguments, owners, backward)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is compared
        return Raised(error)


def truth(program: Callable[..., Any], make: Make, sizes: Sequence[int], backward: str) -> Any:
    """What a call would leave behind, were all of it float64."""
    with widened(), chosen_outright():
        return outcome(program, make, sizes, backward, Float64Mode())


def nudged(program: Callable[..., Any], make: Make, sizes: Sequence[int], backward: str) -> list[Any]:
    """What calls in eager leave behind whose functions are off by a last digit."""
    with chosen_outright():
        return [outcome(program, make, sizes, backward, NudgedMode(seed)) for seed in range(NUDGED)]


def _effects(program: Callable[..., Any], arguments: list[Any], owners: list[Any], backward: str) -> Results:
    given = [*_leaves(arguments, "argument"), *_leaves(owners, "owner")]
    wanted = {name: value for name, value in given if isinstance(value, Tensor) and _is_wanted(value)}
    outputs = program(*arguments)
    results: Results = {"structure": str(tree_flatten(outputs)[1])}
    results["random state"] = torch.get_rng_state()
    if scope.DEVICE != "cpu":
        results["random state of the device"] = torch.cuda.get_rng_state()
    found = _leaves(outputs, "output")
    results |= _seen([*given, *found])
    roots = [value for _, value in found if isinstance(value, Tensor) and value.grad_fn is not None]
    roots = list({id(root): root for root in roots}.values())
    if backward and wanted and roots:
        roots = roots[:1] if backward == "first" else roots
        for time in range(2 if backward == "twice" else 1):
            gradients = torch.autograd.grad(
                roots, list(wanted.values()), [_cotangent(root, time) for root in roots],
                allow_unused=True, retain_graph=backward == "twice",
            )  # fmt: skip
            results |= _seen([(f"gradient {time} of {n}", g) for n, g in zip(wanted, gradients, strict=True)], False)
    return results | _versions([*given, *found])


def _versions(values: list[tuple[str, Any]]) -> Results:
    """Which tensors that share memory count their changes together: autograd looks there for what was written to."""
    results: Results = {}
    owners: dict[int, Tensor] = {}
    plain = [one for name, value in values for one in _parts(name, value)]
    for name, value in plain:
        if isinstance(value, Tensor) and value.layout is torch.strided and value.numel():
            owner = owners.setdefault(value.untyped_storage()._cdata, value)
            before = value._version
            torch.autograd.graph.increment_version(owner)
            results[f"{name} version"] = value._version != before
    return results


def _is_wanted(value: Tensor) -> bool:
    return value.requires_grad and (value.is_leaf or value._base is None)


def _cotangent(root: Tensor, time: int) -> Tensor:
    """Numbers that every dtype holds exactly, which lie as the output does."""
    made = torch.empty_like(root.detach())
    weights = (torch.arange(made.numel(), device=made.device) * 7 % 13 - 6 + time) / 4
    return made.copy_(weights.to(made.dtype).reshape(made.shape))


def _leaves(tree: Any, name: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for path, value in tree_flatten_with_path(tree)[0]:
        own = f"{name}{keystr(path)}"
        if isinstance(value, torch.nn.Module):
            found += [(f"{own}.{inner}", one) for inner, one in [*value.named_parameters(), *value.named_buffers()]]
        else:
            found.append((own, value))
    return found


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """A tensor, or the plain tensors that a subclass is made of."""
    if not isinstance(value, Tensor) or not hasattr(value, "__tensor_flatten__"):
        return [(name, value)]
    wrapped: Any = value
    inner, _ = wrapped.__tensor_flatten__()
    return [one for part in inner for one in _parts(f"{name}.{part}", getattr(value, part))]


def _seen(values: list[tuple[str, Any]], owned: bool = True) -> Results:
    """What can be seen of values: of tensors, copies of what they hold, and how they lie."""
    results: Results = {}
    plain = [one for name, value in values for one in _parts(name, value)]
    for number, (name, value) in enumerate(values):
        results[f"{name} type"] = type(value)
        if isinstance(value, Tensor):
            results[f"{name} autograd"] = value.requires_grad, value.is_leaf
            if value.numel():  # eager's operators give a tensor without elements itself where they would make a new one
                results[f"{name} is"] = next((other for other, one in values[:number] if one is value), None)
    owners: dict[int, tuple[str, Any]] = {}
    for name, value in plain:
        if not isinstance(value, Tensor):
            results[name] = value
            continue
        detached = value.detach()
        results[name] = detached.resolve_conj().resolve_neg().clone()
        if owned and value.layout is torch.strided:
            used = [stride for size, stride in zip(value.shape, value.stride(), strict=True) if size != 1]
            results[f"{name} strides"] = used if value.numel() else None
            if value.numel():
                # Where a tensor begins in memory that it has for itself, nobody sees.
                owner, offset = owners.setdefault(value.untyped_storage()._cdata, (name, value.storage_offset()))
                results[f"{name} shares memory with"] = owner if owner != name else None
                results[f"{name} begins"] = value.storage_offset() - offset
    return results


def narrowest(source: str) -> float:
    """The distance of 1 to the next number in the narrowest floating type that a program names."""
    if re.search(r"bfloat16|autocast", source):
        return torch.finfo(torch.bfloat16).eps
    return torch.finfo(torch.float16 if re.search(r"float16|half\(", source) else torch.float32).eps


def differences(
    actual: Results,
    expected: Results,
    find_truth: Callable[[], Any],
    find_nudged: Callable[[], list[Any]],
    unit: float = torch.finfo(torch.float32).eps,
) -> list[str]:
    """What is not as in eager. A value of 16 bits on the way is good for a last digit of it (`unit`) in the results:
    eager may be right by luck, or round more often. So it may be elsewhere, which `find_nudged` shows.
    """
    # One backward pass is traced for all results: who asks for the gradients of some gets zeros where eager gives None.
    zeros = {
        name
        for name, value in actual.items()
        if name.startswith("gradient") and _is_zero_for_none(value, expected.get(name, value))
    }
    unused = {name + aspect for name in zeros for aspect in ("", " type", " is", " autograd")}
    found = [f"{name}: eager has none" for name in actual if name not in expected and name not in unused]
    wide: Any = None
    moved: list[Any] | None = None
    for name, want in expected.items():
        if name in unused:
            continue
        have = actual.get(name)
        if not isinstance(want, Tensor) or not isinstance(have, Tensor):
            if type(have) is not type(want) or (have != want and not (have != have and want != want)):
                found.append(f"{name}: {have!r}, eager {want!r}")
            continue
        if have.dtype != want.dtype or have.shape != want.shape or have.device != want.device:
            found.append(f"{name}: {_described(have)}, eager {_described(want)}")
        elif not _same(have, want):
            wide = find_truth() if wide is None else wide
            judged = wide.get(name) if isinstance(wide, dict) else None
            if isinstance(judged, Tensor) and judged.shape == want.shape:
                ulps = 4.0 * max(1.0, unit / _precision(want)) if unit > 1e-4 else 4.0
                compared = compare(name, have, want, judged, strides=False, ulps=ulps)
                said = None if compared.passes else str(compared)
                if said is not None and want.dtype.is_floating_point | want.dtype.is_complex:
                    moved = find_nudged() if moved is None else moved
                    runs = [run.get(name) for run in moved if isinstance(run, dict)]
                    said = None if _is_within(have, judged, runs, compared.allowed_largest) else said
            else:
                said = difference(have, want)
            found += [f"{name}: values: {said}"] if said else []
    return found


def _is_within(have: Tensor, true: Tensor, runs: list[Any], allowed: float) -> bool:
    """Whether each element is as near to the truth as those of nudged runs are, but for a factor."""
    runs = [run for run in runs if isinstance(run, Tensor) and run.shape == true.shape]
    if not runs:
        return False
    wide = torch.complex128 if have.is_complex() else torch.float64
    spread = torch.stack([(run.to(wide) - true.to(wide)).abs() for run in runs]).amax(0)
    return bool(((have.to(wide) - true.to(wide)).abs() <= allowed + SPREAD * spread).all())


def _precision(value: Tensor) -> float:
    return torch.finfo(value.dtype).eps if value.is_floating_point() or value.is_complex() else 1.0


def _is_zero_for_none(value: Any, want: Any) -> bool:
    return want is None and isinstance(value, Tensor) and not value.any()


def _described(value: Tensor) -> str:
    return f"{value.dtype} of {tuple(value.shape)} on {value.device}"


def _same(a: Tensor, b: Tensor) -> bool:
    if a.dtype.itemsize == 1:
        return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
    return bool(((a == b) | ((a != a) & (b != b))).all())


def show(
    inputs: Make, program: Callable[..., Any], calls: list[tuple[int, ...]], settings: dict[str, Any], backward: str
) -> None:
    """Prints what is wrong, for the script of a finding."""
    with donated_buffers(backward != "twice"):
        _show(inputs, program, calls, settings, backward)


def _show(
    inputs: Make, program: Callable[..., Any], calls: list[tuple[int, ...]], settings: dict[str, Any], backward: str
) -> None:
    compiled = torch.compile(program, backend="cuesta", **settings)
    for sizes in calls:
        expected, actual = outcome(program, inputs, sizes, backward), outcome(compiled, inputs, sizes, backward)
        if isinstance(expected, Raised) or isinstance(actual, Raised):
            print(f"{sizes}: compiled: {_told(actual)}\n    eager: {_told(expected)}")
            if isinstance(actual, Raised) and not isinstance(expected, Raised):
                traceback.print_exception(actual.error)
            continue
        true = functools.partial(truth, program, inputs, sizes, backward)
        moved = functools.partial(nudged, program, inputs, sizes, backward)
        problems = differences(actual, expected, true, moved)
        print(f"{sizes}: " + ("\n    ".join(problems) or "right"))


def _told(result: Any) -> str:
    return str(result) if isinstance(result, Raised) else "results"
