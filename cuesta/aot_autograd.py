"""The call of AOTAutograd: one graph of Dynamo's in, what runs it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def captured(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Mapping[str, Any]
) -> Callable[..., Any]:
    """What AOTAutograd makes of a graph, given compilers, a partitioner and decompositions.

    Source: `AotAutograd` of torch/_dynamo/backends/common.py, which does the same and imports, for a log of
    TorchInductor's, its scheduler: 60 ms of a cold start.
    """
    from functorch.compile import aot_module_simplified  # pyright: ignore[reportPrivateImportUsage]  # documented there
    from torch._dynamo import config, disable
    from torch._dynamo.utils import counters
    from torch.fx._lazy_graph_module import _use_lazy_graph_module  # pyright: ignore[reportPrivateUsage]

    from cuesta.lowering.capture.dynamo_graph import (
        copy_what_is_resolved,
        expand_nothing_by_views,
        gather_where_a_tensor_says,
        view_what_may_be_seen,
    )
    from cuesta.lowering.capture.lost_in_views import copy_negative_results

    copy_what_is_resolved(gm)
    copy_negative_results(gm)
    expand_nothing_by_views(gm)
    gather_where_a_tensor_says(gm)
    view_what_may_be_seen(gm)
    if any(
        isinstance(value, list | tuple | dict) for value in example_inputs
    ):  # of compiled autograd; it flattens them
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(**settings)(gm, example_inputs)
    compile_backward = disable(settings["bw_compiler"], reason="do not trace backward compiler function")

    def compiled_backward(*arguments: Any, **options: Any) -> Any:
        return disable(compile_backward(*arguments, **options), reason="do not trace generated backwards pass")

    counters["aot_autograd"]["total"] += 1
    outcome = "not_ok"
    try:
        with _use_lazy_graph_module(
            config.use_lazy_graph_module
        ):  # nobody calls the graphs on the way: no code for them
            compiled = aot_module_simplified(gm, example_inputs, **{**settings, "bw_compiler": compiled_backward})
        outcome = "ok"
    finally:
        counters["aot_autograd"][outcome] += 1
    return disable(compiled, reason="do not trace AOT-compiled graph")


__all__ = ["captured"]
