"""Graphs of Dynamo's that eager runs as they are: why, and how.

AOTAutograd refuses programs that eager takes: one error of its tracing, and Dynamo would fail the call. Such a graph is
run node by node instead, with a warning that says what was refused. (What Dynamo itself knows how to answer goes on to
it: it traces again, or breaks the graph.)
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import extract_tb
from typing import Any, cast

import torch
from torch.fx import GraphModule

from cuesta.lowering.capture.said_of_nodes import UncapturedError

_C: Any = getattr(torch, "_C")  # noqa: B009  # most of it has no types
UNCAPTURED = "AOTAutograd cannot capture it"
"""How the reason begins where nobody has foreseen the error; in tests and in CI such a warning is one."""


def untouched(gm: GraphModule) -> GraphModule:
    """The graph as it is, with the graphs that it calls: what makes it fit to be captured, holds for how inputs share
    memory in the first call, and for no other.
    """
    from torch.fx._lazy_graph_module import _LazyGraphModule  # pyright: ignore[reportPrivateUsage]

    nodes = torch.fx.Graph()
    nodes.output(nodes.graph_copy(gm.graph, {}))
    nodes.output_node().meta = dict(gm.graph.output_node().meta)
    made = _LazyGraphModule(gm, nodes)  # its code is written when it is called
    made.meta = gm.meta
    for name, module in gm.named_children():
        if isinstance(module, GraphModule):
            made.add_module(name, untouched(module))
    return made


def run_in_eager(gm: GraphModule) -> Callable[..., Any]:
    """The graph as a function that eager runs; the graph is changed.

    x.data = y is just that. Dynamo writes it as an update without gradients, x.set_(y), after which x is another leaf
    (what was computed of it before has no gradient to it), and a bit of x's is one of y (torch 2.11, 2.13).

    Checkpoints are those of torch.utils: the operator that stands for one in a graph draws other random numbers when it
    computes again, where no compiler sees to it, and gradients would be of another dropout.

    Source: `tag_activation_checkpoint_impl` of torch/_higher_order_ops/wrap.py (`preserve_rng_state`).
    """
    _give_data(gm)
    operator = torch.ops.higher_order.tag_activation_checkpoint
    for module in gm.modules():
        found = module.graph.find_nodes(op="call_function", target=operator) if isinstance(module, GraphModule) else []
        for node in found:
            node.target = _checkpoint
        if found:
            cast("GraphModule", module).recompile()

    def run(*arguments: Any) -> Any:
        with left_as_found():
            return gm.forward(*arguments)

    return run


def _give_data(gm: GraphModule) -> None:
    """x.set_(y), whose change is not counted -> x.data = y, which it was, in place: x keeps its gradient and has the
    bit of y.
    """
    from cuesta.lowering.capture.dynamo_graph import name_of, sets_data

    for module in gm.modules():
        found = [node for node in module.graph.nodes if sets_data(node)] if isinstance(module, GraphModule) else []
        for node in found:
            node.op, node.target = "call_function", _with_data
            for user in [one for one in node.users if name_of(one) == "_lower_version_count_by_1"]:
                user.target = _itself
        if found:
            cast("GraphModule", module).recompile()


def _with_data(tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    tensor.data = data
    return tensor


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _checkpoint(body: GraphModule, *arguments: Any, **settings: Any) -> Any:
    import torch.utils.checkpoint as checkpoints

    checkpoint: Any = getattr(checkpoints, "checkpoint")  # noqa: B009  # its parameters have no types
    if (contexts := body.meta.get("_checkpoint_context_fn")) is not None:
        settings["context_fn"] = contexts
    return checkpoint(body, *arguments, **{**settings, "use_reentrant": False})


_OVERWRITTEN = "has been modified by an inplace operation"
"""What autograd says of a value that a gradient needs and that was written to since."""


def why_uncaptured(error: Exception) -> str | None:
    """Why eager is to run a graph that could not be captured; None for an error that is to be raised: one that Dynamo
    answers, a diagnostic of ours, a want of memory.
    """
    from torch._dynamo import exc

    from cuesta.dialects.core.diagnostics import CuestaError

    # One of the first is that sizes are known by now: Dynamo traces again.
    answered: Any = (exc.TorchDynamoException, *cast("Any", exc).exceptions_allowed_to_be_fallback)
    if isinstance(error, (*answered, CuestaError, Warning, MemoryError, torch.OutOfMemoryError)):
        return None
    if isinstance(error, UncapturedError):
        return str(error)
    if isinstance(error, RuntimeError) and _OVERWRITTEN in str(error):
        # AOTAutograd asks for gradients at once. Eager raises where somebody does, if anybody does.
        return f"a gradient needs what is overwritten ({error})"
    if isinstance(error, KeyError) and type(error.args[0]).__name__ == "Symbol":
        # `tensorify_python_scalars` does not find sizes of a subclass's parts that are in a float (torch 2.11, 2.13).
        return f"a number is computed of {error}, a size that no node of the graph has"
    said = next((line for line in str(error).splitlines() if line.strip()), "")
    frames = extract_tb(error.__traceback__)
    where = f" [{Path(frames[-1].filename).name}:{frames[-1].lineno}]" if frames else ""
    return f"{UNCAPTURED}: {type(error).__name__}: {said}{where}"


@contextmanager
def left_as_found() -> Generator[None]:
    """Where an error ends the `with` block, the settings of torch's are put back that nodes of a graph change and a
    later node would put back: levels of `torch.func` and of forward derivatives, whether gradients are recorded,
    hooks of saved tensors, autocast. (torch 2.13: after an error within `jvp` no program could call `jvp` any more.)
    """
    before = _Found()
    try:
        yield
    except BaseException:
        before.put_back()
        raise


class _Found:
    """Settings of the thread, as they are now."""

    def __init__(self) -> None:
        functorch = _C._functorch
        self.depth: int = functorch.get_dynamic_layer_stack_depth()
        self.may_require: bool = functorch.get_inplace_requires_grad_allowed()
        self.records, self.records_forward = torch.is_grad_enabled(), _C._is_fwd_grad_enabled()
        self.hooks_refused = _hooks_refused()
        self.autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _KINDS]
        self.caches, self.nesting = torch.is_autocast_cache_enabled(), _nesting()

    def put_back(self) -> None:
        """Makes them so again."""
        functorch, levels = _C._functorch, _C._functorch.TransformType
        leave = {
            levels.Vmap: functorch._vmap_decrement_nesting,
            levels.Grad: functorch._grad_decrement_nesting,
            levels.Jvp: functorch._jvp_decrement_nesting,
            levels.Functionalize: functorch._func_decrement_nesting,
        }
        while functorch.get_dynamic_layer_stack_depth() > self.depth:
            leave[functorch.get_interpreter_stack()[-1].key()]()
        _leave_forward_derivatives()
        functorch.set_inplace_requires_grad_allowed(self.may_require)
        _C._set_grad_enabled(self.records)
        _C._set_fwd_grad_enabled(self.records_forward)
        if _hooks_refused() != self.hooks_refused:
            autograd = _C._autograd
            if self.hooks_refused is None:
                autograd._saved_tensors_hooks_enable()
            else:
                autograd._saved_tensors_hooks_disable(self.hooks_refused)
        for kind, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(self.caches)
        while _nesting() > self.nesting:
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


_KINDS = ("cpu", "cuda")


def _hooks_refused() -> str | None:
    """What is said to those who want hooks of saved tensors, where there may be none."""
    return _C._autograd._saved_tensors_hooks_get_disabled_error_message()


def _nesting() -> int:
    """How many regions of autocast this is within."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _leave_forward_derivatives() -> None:
    """Leaves the level that a graph has entered by torch's C++, of which torch's Python knows nothing."""
    from torch.autograd import forward_ad

    level: int = getattr(forward_ad, "_current_level")  # noqa: B009
    if level < 0:
        with suppress(RuntimeError):  # there is none
            _C._exit_dual_level(level=0)


__all__ = ["UNCAPTURED", "UncapturedError", "left_as_found", "run_in_eager", "untouched", "why_uncaptured"]
