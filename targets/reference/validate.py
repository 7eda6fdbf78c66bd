"""Translation validation: a program is run before and after a pass, and must give the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects.core.entry import entry_function, given_results, written_arguments
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.targets.reference.numerics import bits, first_point, restride, same_layout
from cuesta.targets.reference.program import run_and_write
from cuesta.targets.reference.random_inputs import random_inputs

# A pass that reassociates may be this much further from the truth than the program it was given, and a few roundings.
_WORSE = 4.0
_ROUNDINGS = 4.0


class NotEquivalentError(AssertionError):
    """Two programs that ought to give the same do not."""


def check_equivalent(
    before: ModuleOp,
    after: ModuleOp,
    inputs: Sequence[object] | None = None,
    *,
    exact: bool = True,
    pass_name: str = "",
    constants: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    seed: int = 0,
) -> None:
    """Runs both programs on the same inputs (`random_inputs(before, seed)` by default) and compares what they return,
    and what they write to their inputs.

    `exact` compares bit by bit, except that all NaN are equal. Otherwise floats are compared with a run of `before`
    that rounds nothing: those of `after` may be at most a few times as far from it as those of `before`. A program that
    did not change is not run.
    Errors: NotEquivalentError, which names the pass and the first result that differs.
    """
    Watched(before, inputs, constants=constants, seed=seed).check(after, exact=exact, pass_name=pass_name)


class Watched:
    """A program that goes through pass after pass: each is checked as `check_equivalent` does, and what the program
    gave after one pass is not computed again before the next.
    """

    def __init__(
        self,
        program: ModuleOp,
        inputs: Sequence[object] | None = None,
        *,
        constants: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
        seed: int = 0,
    ) -> None:
        self._program = program.clone()
        self._fingerprint: Fingerprint = fingerprint(program)
        self._inputs = inputs
        self._constants = constants
        self._seed = seed
        self._results: list[object] | None = None
        self._found: dict[int, Tensor] = {}
        """The results of the last run that lie in memory of an argument which is written to: what lay there before."""
        self._earlier: dict[int, Tensor] = {}
        """Those of the program as it was at the last check."""

    def check(self, program: ModuleOp, *, exact: bool = True, pass_name: str = "") -> None:
        """Compares the program with what it was at the last check. Errors: NotEquivalentError."""
        now = fingerprint(program)
        if now == self._fingerprint:
            return
        if self._inputs is None:
            self._inputs = random_inputs(self._program, self._seed)
        if self._results is None:
            self._results = self._run(self._program)
            self._earlier = self._found
        expected = self._results
        actual = self._run(program)
        truth: list[object] | None = expected if exact else None
        prefix = f"{pass_name}: " if pass_name else ""
        if len(expected) != len(actual):
            raise NotEquivalentError(f"{prefix}{len(expected)} results before, {len(actual)} after")
        main = entry_function(program)
        given = given_results(main)
        told = range(0) if given is None else range(given, len(actual) - len(written_arguments(main)))
        earlier, self._earlier = self._earlier, self._found
        for position, (ours, theirs) in enumerate(zip(expected, actual, strict=True)):
            if (position in earlier) != (position in self._found):
                # One is the argument, which is written at last, and the other may be what it was: it is nobody's, as
                # whoever calls makes the result of the argument.
                value, given = (theirs, earlier) if position in earlier else (ours, self._found)
                if difference(given[position], value, given[position], True, told=False) is None:
                    continue
            if truth is None and not _same_to_the_bit(ours, theirs):
                truth = self._run(self._program, precise=True)  # takes as long as the two others, and is seldom asked
            true = ours if truth is None else truth[position]
            problem = difference(ours, theirs, true, exact, told=position in told)
            if problem is not None:
                raise NotEquivalentError(f"{prefix}result {position} is not the same: {problem}")
        self._program, self._fingerprint, self._results = program.clone(), now, actual

    def _run(self, program: ModuleOp, *, precise: bool = False) -> list[object]:
        """What a program returns, then what it writes to its inputs; run on copies, with the seed's random numbers."""
        assert self._inputs is not None
        copies = [_copy(value) for value in self._inputs]
        with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
            torch.manual_seed(self._seed)  # pyright: ignore[reportUnknownMemberType]
            results, written = run_and_write(program, copies, constants=self._constants, precise=precise)
        if not precise:
            memory = {_memory_of(copies[place]): place for place in written_arguments(entry_function(program))}
            self._found = {
                position: _the_same_of(_copy(self._inputs[memory[_memory_of(one)]]), one)
                for position, one in enumerate(results)
                if isinstance(one, Tensor) and one.numel() and _memory_of(one) in memory
            }
        return results + written


def _memory_of(value: object) -> int:
    """Where the memory of a tensor begins; 0 of what has none."""
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else 0


def _the_same_of(memory: object, part: Tensor) -> Tensor:
    """The part of a tensor's memory that another one is of memory as large."""
    assert isinstance(memory, Tensor)
    made = torch.empty(0, dtype=part.dtype)
    made = made.set_(memory.untyped_storage(), part.storage_offset(), part.size(), part.stride())
    made = torch.ops.aten._neg_view.default(made) if part.is_neg() else made
    return made.conj() if part.is_conj() else made


def _copy(value: object) -> object:
    return restride(value.clone(), value.stride()) if isinstance(value, Tensor) else value


def difference(before: object, after: object, truth: object, exact: bool, *, told: bool) -> str | None:
    """How two results differ; None when they do not: to the bit, or by as much as `truth` allows. Who gets one that is
    `told` learns how it lies.
    """
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        same = type(before) is type(after) and (before == after or (before != before and after != after))
        return None if same else f"{before!r} before, {after!r} after"
    if before.shape != after.shape or before.dtype is not after.dtype:
        return f"{before.dtype} {list(before.shape)} before, {after.dtype} {list(after.shape)} after"
    if not told and not same_layout(after, before.stride()):
        return f"strides {list(before.stride())} before, {list(after.stride())} after"
    bad = ~_same_bits(before, after)
    if not exact and before.is_floating_point() and isinstance(truth, Tensor):
        bad &= ~_close(before, after, truth)
    if not bool(bad.any()):
        return None
    place = first_point(bad)
    message = f"{int(bad.sum())} of {bad.numel()} elements differ, first at {list(place)}: "
    message += f"{before[place].item()!r} before, {after[place].item()!r} after"
    if before.dtype is torch.bool:
        return message
    wide = torch.complex128 if before.is_complex() else torch.float64
    error = (before.to(wide) - after.to(wide)).abs()
    return f"{message}; the greatest difference is {float(error.nan_to_num(0.0).max())}"


def _same_to_the_bit(before: object, after: object) -> bool:
    """Whether two results are the same however the truth is."""
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return True
    return before.shape == after.shape and before.dtype is after.dtype and bool(_same_bits(before, after).all())


def _same_bits(before: Tensor, after: Tensor) -> Tensor:
    """Where two tensors agree: −0 is not 0, and NaN is NaN."""
    if before.is_complex():
        return _same_bits(torch.view_as_real(before), torch.view_as_real(after)).all(-1)
    if not before.is_floating_point():
        return bits(before) == bits(after)
    if before.element_size() == 1:
        before, after = before.float(), after.float()
    same = (before == after) & (torch.signbit(before) == torch.signbit(after))
    return same | (before.isnan() & after.isnan())


def _close(before: Tensor, after: Tensor, truth: Tensor) -> Tensor:
    """Where `after` is about as close to the truth as `before` is; what is not finite must be the same."""
    before_wide, after_wide, truth = before.double(), after.double(), truth.double()
    finite = before_wide.isfinite() & after_wide.isfinite() & truth.isfinite()
    if not bool(finite.any()):
        return finite
    worst = (before_wide - truth).abs()[finite].max()
    scale = truth.abs()[finite].max()
    allowed = _WORSE * worst + _ROUNDINGS * torch.finfo(before.dtype).eps * torch.maximum(truth.abs(), scale * 1e-2)
    close = (after_wide - truth).abs() <= allowed
    return close & finite | (before_wide == after_wide)


__all__ = ["NotEquivalentError", "Watched", "check_equivalent", "difference"]
