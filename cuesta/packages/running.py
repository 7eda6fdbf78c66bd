"""From a graph's programs to a function of flat inputs; for training, one that autograd can go back through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch

from cuesta.finishing import load_program, with_constants
from cuesta.packages.graph import Graph, PackageError, Pass, Plan, Result, Tangent
from cuesta.packages.signature import listed
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
    if all(one == Result(k) for k, one in enumerate(plan.results)) and not plan.copied_back:
        return forward

    finish = _finisher(plan)

    def call(args: list[Any]) -> Sequence[Any]:
        given = list(args)
        return finish(given, forward(args))

    return call


def _without_tokens(forward: Flat, tokens: int) -> Flat:
    """A forward pass, given so many tokens, which nobody reads, and its results without them."""
    if not tokens:
        return forward

    def call(args: list[Any]) -> Sequence[Any]:
        given = [*[None] * tokens, *args]
        args.clear()
        return forward(given)[tokens:]

    return call


def _finisher(plan: Plan) -> Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]:
    """From inputs and the forward pass's results to what the caller gets: inputs that change do so, and views are taken
    where the caller, and autograd, see them.
    """
    names = ", ".join(name for name, _ in plan.symbols)
    places = [place for _, place in plan.symbols]
    views = [one.view for one in plan.results if one.view is not None]
    shown = ", ".join(f"(({listed(one.sizes)}), ({listed(one.strides)}), {one.offset})" for one in views)
    space: dict[str, Any] = {}
    define(f"def layouts({names}):\n    return [{shown}]\n", "layouts of views", space)
    layouts: Callable[..., list[Any]] = space["layouts"]

    def finish(given: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        for place, result in plan.copied_back:
            given[place].copy_(results[result])
        known = iter(layouts(*[given[place] for place in places]))
        gives: list[Any] = []
        for one in plan.results:
            if one.view is None:
                gives.append(results[one.result] if one.input is None else given[one.input])
                continue
            source = given[one.input] if one.input is not None else results[cast("int", one.base)]
            sizes, strides, offset = next(known)
            taken = source.as_strided(sizes, strides, source.storage_offset() + offset)
            taken = torch._neg_view(taken) if one.view.is_negative else taken
            gives.append(taken.conj() if one.view.is_conjugate else taken)
        return gives

    return finish


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
    # What programs write to themselves wants no gradient: AOTAutograd has seen to that.
    dirty = [place for place in plan.written if not any(place == copied for copied, _ in plan.copied_back)]

    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            results = list(forward(list(inputs)))
            ctx.mark_dirty(*(inputs[place] for place in dirty))
            saved = [results[k] for k in plan.saved]
            ctx.save_for_backward(*(one for one in saved if isinstance(one, torch.Tensor)))
            ctx.others = [None if isinstance(one, torch.Tensor) else one for one in saved]
            visible = results[: plan.visible]
            # What is changed is a result too, as autograd wants it.
            changed = [inputs[place] for place in dirty]
            others = [visible[k] for k in plain if isinstance(visible[k], torch.Tensor)]
            ctx.mark_non_differentiable(*changed, *others)
            return (*visible, *changed)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *gradients: Any) -> Any:
            tensors = iter(ctx.saved_tensors)
            saved = [next(tensors) if one is None else one for one in ctx.others]
            taken = [*saved, *(_laid_out(gradients[one.result], one) for one in plan.tangents)]
            return tuple(backward(taken))

    def call(args: list[Any]) -> Sequence[Any]:
        given = list(args)
        args.clear()
        return finish(given, cast("Sequence[Any]", Step.apply(*given)))

    return call


def _laid_out(gradient: torch.Tensor, tangent: Tangent) -> torch.Tensor:
    """A gradient as the backward pass reads it."""
    plain = gradient.resolve_neg().resolve_conj()
    if tangent.strides is None:
        return plain.contiguous(memory_format=getattr(torch, tangent.format))
    return plain if plain.stride() == tangent.strides else with_strides(plain, tangent.strides)
