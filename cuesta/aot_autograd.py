"""The call of AOTAutograd: one graph of Dynamo's in, what runs it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


def captured(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Mapping[str, Any]
) -> Callable[..., Any]:
    """What AOTAutograd makes of a graph, given compilers, a partitioner and decompositions.

    It counts the sizes of tensor subclasses among the results before it traces a graph, of those that are symbols. What
    a decomposition asks meanwhile may tell that a symbol is a number, after which there are fewer than it has counted:
    results would be taken for others. Then it is asked again, and knows from the start. A number stays one, so there is
    an end to that: only symbols count that there were before it was asked (each trace makes others of sizes that the
    data says, and those that are known to be numbers are again).

    Source: `create_subclass_meta` and `unwrap_tensor_subclasses` of
    torch/_functorch/_aot_autograd/subclass_utils.py.
    """
    from cuesta.lowering.capture.behind_autograd import update_without_gradients
    from cuesta.lowering.capture.dynamo_graph import (
        copy_what_is_resolved,
        draw_in_rows,
        expand_nothing_by_views,
        gather_where_a_tensor_says,
        view_what_may_be_seen,
    )
    from cuesta.lowering.capture.layouts_of_updates import updates_lie_as_before
    from cuesta.lowering.capture.lost_in_views import copy_negative_results
    from cuesta.lowering.capture.operands_of_loops import give_memory_to_operands
    from cuesta.lowering.capture.strides_as_said import as_said

    copy_what_is_resolved(gm)
    copy_negative_results(gm)
    expand_nothing_by_views(gm)
    gather_where_a_tensor_says(gm)
    draw_in_rows(gm)
    updates_lie_as_before(gm)
    give_memory_to_operands(gm)
    update_without_gradients(gm, example_inputs)
    view_what_may_be_seen(gm)
    _call_inputs_by_their_names(gm, example_inputs)
    environment = _symbols_of_subclasses(gm, example_inputs)
    if environment is not None and _unknown_sizes(environment):
        settings = {**settings, "decompositions": as_said(settings["decompositions"])}
    while environment is not None:
        unknown = _unknown_sizes(environment)
        try:
            return _captured(gm, example_inputs, _settings_while(environment, unknown, settings))
        except Exception:
            if unknown <= _unknown_sizes(environment):
                raise
    return _captured(gm, example_inputs, settings)


def _call_inputs_by_their_names(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Puts back under which name Dynamo knows the sizes of an input that is also what another is a view of: x, beside
    x.T. It calls the base `y._base` when it comes to the view, and AOTAutograd asks for sizes by the last name: it gets
    other symbols than Dynamo's, which no guard can tell (torch 2.11, 2.13).

    Source: `wrap_to_fake_tensor_and_record` of torch/_dynamo/variables/builder.py, `process_inputs` of
    torch/_functorch/_aot_autograd/frontend_utils.py.
    """
    from torch._guards import TracingContext

    tracing = TracingContext.try_get()
    if tracing is None:
        return
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), example_inputs, strict=True):
        context: Any = tracing.tensor_to_context.get(value) if isinstance(value, torch.Tensor) else None
        source = getattr(node.meta.get("grapharg"), "source", None)
        if source is not None and getattr(context, "tensor_source", source) != source:
            tracing.tensor_to_context[value] = replace(context, tensor_source=source)


class _Learned(Exception):
    """A size has become a number since AOTAutograd has counted sizes."""


def _symbols_of_subclasses(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> ShapeEnv | None:
    """Where the symbols of a graph are kept that is given tensor subclasses, or gives some; None of any other graph."""
    from torch._guards import detect_fake_mode

    from cuesta.subclass_zeros import has_subclasses

    if not has_subclasses(gm, example_inputs):
        return None
    mode = detect_fake_mode(example_inputs)
    return None if mode is None else mode.shape_env


def _unknown_sizes(environment: ShapeEnv) -> set[Any]:
    """The symbols that are not known to be numbers."""
    numbers = (symbol for symbol, said in environment.replacements.items() if said.is_number)
    return set(environment.var_to_range).difference(numbers)


def _settings_while(environment: ShapeEnv, unknown: set[Any], settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings of which nothing is called once one of `unknown` is a number: all would be thrown away."""

    def only_while(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            if not unknown <= _unknown_sizes(environment):
                raise _Learned
            return function(*arguments, **options)

        return called

    return {
        name: only_while(value) if name in ("fw_compiler", "inference_compiler", "partition_fn") else value
        for name, value in settings.items()
    }


def _captured(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Mapping[str, Any]
) -> Callable[..., Any]:
    """What AOTAutograd makes of a graph when it is asked once.

    Source: `AotAutograd` of torch/_dynamo/backends/common.py, which does the same and imports, for a log of
    TorchInductor's, its scheduler: 60 ms of a cold start.
    """
    from functorch.compile import aot_module_simplified  # pyright: ignore[reportPrivateImportUsage]  # documented there
    from torch._dynamo import config, disable
    from torch._dynamo.utils import counters
    from torch.fx._lazy_graph_module import _use_lazy_graph_module  # pyright: ignore[reportPrivateUsage]

    from cuesta.checkpoints_without_backward import keeping_what_is_not_computed_again
    from cuesta.gradient_layouts import no_element_twice
    from cuesta.short_calls import Shortening

    if any(
        isinstance(value, list | tuple | dict) for value in example_inputs
    ):  # of compiled autograd; it flattens them
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(**settings)(gm, example_inputs)
    compile_backward = disable(settings["bw_compiler"], reason="do not trace backward compiler function")
    shortening = Shortening(settings["inference_compiler"])

    def compiled_backward(*arguments: Any, **options: Any) -> Any:
        return disable(compile_backward(*arguments, **options), reason="do not trace generated backwards pass")

    counters["aot_autograd"]["total"] += 1
    outcome = "not_ok"
    try:
        # Nobody calls the graphs on the way: no code for them.
        lazy, kept = _use_lazy_graph_module(config.use_lazy_graph_module), keeping_what_is_not_computed_again(gm)
        with lazy, kept, no_element_twice():
            ours = {"bw_compiler": compiled_backward, "inference_compiler": shortening.compiler}
            compiled = aot_module_simplified(gm, example_inputs, **{**settings, **ours})
        outcome = "ok"
    finally:
        counters["aot_autograd"][outcome] += 1
    return shortening.shortened(compiled)


__all__ = ["captured"]
