"""From a graph's programs to a function of flat inputs; for training, one that autograd can go back through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch

from cuesta.finishing import load_program, with_constants
from cuesta.packages.graph import Graph, PackageError, Pass, Plan, Result, Tangent
from cuesta.packages.signature import FUNCTIONS, listed
from cuesta.record import CompileRecord, GraphKind
from cuesta.targets.cpu.machine_code import MachineCodeError
from cuesta.targets.host.runtime import with_strides
from cuesta.targets.program import CudaError
from cuesta.targets.python_functions import define

Flat: TypeAlias = "Callable[[list[Any]], Sequence[Any]]"
"""It takes a list of inputs, which it empties."""


def function_of(graph: Graph) -> Flat:
    """The graph as a function.

    Errors: PackageError when its programs cannot be loaded here.
    """
    plan = graph.plan
    forward = _without_tokens(_loaded(graph.forward, "inference" if graph.backward is None else "forward"), plan.tokens)
    if graph.backward is not None:
        return _trained(plan, forward, _loaded(graph.backward, "backward"))
    forward = _without_gradients(forward)
    dirty = _written_to(plan)
    if all(one == Result(k) for k, one in enumerate(plan.results)) and not plan.copied_back and not dirty:
        return forward

    finish = _finisher(plan)

    def call(args: list[Any]) -> Sequence[Any]:
        given = list(args)
        results = forward(args)
        _count_changes(given, dirty)
        return finish(given, results)

    return call


def _written_to(plan: Plan) -> Sequence[int]:
    """The inputs that programs write to themselves. (They want no gradient: AOTAutograd has seen to that.)"""
    copied = {place for place, _ in plan.copied_back}
    return [place for place in plan.written if place not in copied]


def _count_changes(given: Sequence[Any], places: Sequence[int]) -> None:
    """Lets autograd know of inputs that a program has written to, which has told nobody."""
    if places:
        torch.autograd.graph.increment_version(given[place] for place in places if not given[place].is_inference())


def _without_tokens(forward: Flat, tokens: int) -> Flat:
    """A forward pass, given so many tokens, which nobody reads, and its results without them."""
    if not tokens:
        return forward

    def call(args: list[Any]) -> Sequence[Any]:
        given = [*[None] * tokens, *args]
        args.clear()
        return forward(given)[tokens:]

    return call


def _without_gradients(forward: Flat) -> Flat:
    """A pass that no gradient flows through, whatever its inputs want: autograd does not look at what it calls."""

    def call(args: list[Any]) -> Sequence[Any]:
        if not torch.is_grad_enabled():
            return forward(args)
        torch._C._set_grad_enabled(False)
        try:
            return forward(args)
        finally:
            torch._C._set_grad_enabled(True)

    return call


def _finisher(plan: Plan) -> Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]:
    """From inputs and the forward pass's results to what the caller gets: inputs that change do so, and views are taken
    where the caller, and autograd, see them.
    """
    names = ", ".join([*(name for name, _ in plan.symbols), *(name for name, _, _ in plan.shown)])
    places = [place for _, place in plan.symbols]
    views = [one.view for one in plan.results if one.view is not None]
    shown = ", ".join(f"(({listed(one.sizes)}), ({listed(one.strides)}), {one.offset})" for one in views)
    space: dict[str, Any] = dict(FUNCTIONS)
    define(f"def layouts({names}):\n    return [{shown}]\n", "layouts of views", space)
    layouts: Callable[..., list[Any]] = space["layouts"]

    def finish(given: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        for place, result in plan.copied_back:
            (given[place].detach() if place in plan.hidden else given[place]).copy_(results[result])
        shown = [results[result].shape[axis] for _, result, axis in plan.shown]
        known = iter(layouts(*[given[place] for place in places], *shown))
        gives: list[Any] = []
        for one in plan.results:
            if one.view is None:
                gives.append(results[one.result] if one.input is None else given[one.input])
                continue
            source = given[one.input] if one.input is not None else results[cast("int", one.base)]
            sizes, strides, offset = next(known)
            source = _as_type(source, getattr(torch, one.view.dtype))
            taken = source.as_strided(sizes, strides, source.storage_offset() + offset)
            taken = torch._neg_view(taken) if one.view.is_negative else taken
            taken = taken.conj() if one.view.is_conjugate else taken
            gives.append(taken.detach() if one.view.is_detached else taken)
        return gives

    return finish


def _as_type(source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The memory of a tensor from its first element to its last as elements of another dtype. Gradients flow through
    parts of complex numbers, as in eager.
    """
    if source.dtype == dtype:
        return source
    if source.dtype.is_complex and dtype == source.dtype.to_real():
        return torch.view_as_real(source)
    laid = zip(source.shape, source.stride(), strict=True)
    count = 1 + sum((size - 1) * stride for size, stride in laid) if source.numel() else 0
    if dtype.is_complex and dtype.to_real() == source.dtype:
        return torch.view_as_complex(source.as_strided((count // 2, 2), (2, 1)))
    return source.as_strided((count,), (1,)).view(dtype)


def _loaded(part: Pass, kind: GraphKind) -> Flat:
    try:
        return with_constants(load_program(part.entry.program, CompileRecord(kind=kind)), part.constants)
    except (MachineCodeError, CudaError, AttributeError, SyntaxError, LookupError, TypeError, ValueError) as error:
        missing = "; operators of libraries have to be imported first" if isinstance(error, AttributeError) else ""
        raise PackageError(f"a program of the package cannot be loaded here: {error}{missing}") from error


def _trained(plan: Plan, forward: Flat, backward: Flat) -> Flat:
    """A function whose results autograd knows."""
    finish = _finisher(plan)
    plain = [k for k in range(plan.visible) if not any(k == one.result for one in plan.tangents)]
    dirty = _written_to(plan)

    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            results = list(forward(list(inputs)))
            _count_changes(inputs, dirty)
            saved = [results[k] for k in plan.saved]
            ctx.save_for_backward(*(one for one in saved if isinstance(one, torch.Tensor)))
            ctx.others = [None if isinstance(one, torch.Tensor) else one for one in saved]
            visible = results[: plan.visible]
            others = [visible[k] for k in plain if isinstance(visible[k], torch.Tensor)]
            ctx.mark_non_differentiable(*others)
            return tuple(visible)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *gradients: Any) -> Any:
            tensors = iter(ctx.saved_tensors)
            saved = [next(tensors) if one is None else one for one in ctx.others]
            taken = [*map(_plain, saved), *(_laid_out(gradients[one.result], one) for one in plan.tangents)]
            return tuple(backward(taken))

    def call(args: list[Any]) -> Sequence[Any]:
        given = list(args)
        args.clear()
        return finish(given, cast("Sequence[Any]", Step.apply(*given)))

    return call


def _plain(value: Any) -> Any:
    """A value, of a tensor that has the negative or the conjugate bit a copy without: backward passes read memory."""
    if isinstance(value, torch.Tensor) and (value.is_neg() or value.is_conj()):
        return value.resolve_conj().resolve_neg()
    return value


def _laid_out(gradient: torch.Tensor, tangent: Tangent) -> torch.Tensor:
    """A gradient as the backward pass reads it."""
    plain = _plain(gradient)
    if tangent.strides is None:
        return plain.contiguous(memory_format=getattr(torch, tangent.format))
    return plain if plain.stride() == tangent.strides else with_strides(plain, tangent.strides)
