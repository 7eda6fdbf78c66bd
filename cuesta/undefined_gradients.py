"""Backward passes that are asked for the gradients of some results: AOTAutograd's class for them, and what it calls.

Autograd makes zeros of gradients that nobody has, unless a function says that it takes None. AOTAutograd's does not say
so; `take_undefined` does for it, where a backward graph has parts (`lowering/capture/undefined_gradients.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from cuesta.lowering.capture.undefined_gradients import Graphed

if TYPE_CHECKING:
    from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta

BoxedFunction = Callable[[list[Any]], Any]
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]


def has_functions_of_several(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph of Dynamo's calls a function of a user's (`torch.autograd.Function`) with several results that
    have a gradient. Autograd makes zeros of those that there are not beside one that there is, and nodes of the
    backward graph do not say of which function they are part.
    """
    from cuesta.lowering.capture.dynamo_graph import name_of, value_of

    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if name_of(node) == "autograd_function_apply":
                value = value_of(node)
                results: Any = value if isinstance(value, (list, tuple)) else (value,)
                if sum(isinstance(one, torch.Tensor) and one.requires_grad for one in results) > 1:
                    return True
    return False


def plain_metadata() -> ViewAndMutationMeta | None:
    """What AOTAutograd knows of the graph that it captures, if all gradients that its backward pass is given are plain
    tensors: of a subclass it counts the parts.
    """
    from torch._functorch._aot_autograd.schemas import PlainTensorMeta
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None or not all(isinstance(one, PlainTensorMeta) for one in metadata.subclass_tangent_meta):
        return None
    return metadata


def take_undefined(metadata: ViewAndMutationMeta) -> None:
    """Lets the function of autograd's that AOTAutograd has made of this be given None for undefined gradients."""
    for made in reversed(torch.autograd.Function.__subclasses__()):
        if made.__name__ == "CompiledFunction" and getattr(made, "metadata", None) is metadata:
            node: Any = getattr(made, "_backward_cls")  # noqa: B009  # autograd makes one for each call
            node.__init__ = lambda node: node.set_materialize_grads(False)
            key: Any = getattr(made, "_compiled_autograd_key")  # noqa: B009
            setattr(made, "_compiled_autograd_key", staticmethod(_with_zeros(key)))  # noqa: B010
            return


def _with_zeros(key: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What compiled autograd asks a node for before it takes its backward graph to pieces: that needs zeros."""

    def asked(node: Any) -> Any:
        node.set_materialize_grads(True)
        return key(node)

    return asked


class Parts:
    """A backward pass, and its parts: each is compiled when it is first asked for."""

    def __init__(self, whole: BoxedFunction, graph: Graphed, inputs: Sequence[Any], one: Compile) -> None:
        from cuesta.lowering.capture.undefined_gradients import sizes_of, tangents_of

        self.whole, self.graph, self.inputs, self.compile = whole, graph, inputs, one
        placeholders = graph.graph.find_nodes(op="placeholder")
        tangents = tangents_of(graph.graph)
        self.places = [placeholders.index(node) for node in tangents]
        self.sizes = {place: sizes_of(graph.graph, node) for place, node in zip(self.places, tangents, strict=True)}
        self.likes = [node.meta.get("val") for node in placeholders]
        self.parts: dict[tuple[int, ...], BoxedFunction] = {}
        self.context = _context()

    def __call__(self, arguments: list[Any]) -> Any:
        """Its results; None for each that depends on undefined gradients alone."""
        missing = tuple(place for place in self.places if arguments[place] is None)
        if not missing:
            return self.whole(arguments)
        if (part := self.parts.get(missing)) is None:
            part = self.parts[missing] = self._part(missing)
        return part(arguments)

    def _part(self, missing: tuple[int, ...]) -> BoxedFunction:
        from cuesta.lowering.capture.undefined_gradients import undefined_with, without

        found = without(self.graph, missing)
        if found is None:
            undefined = undefined_with(self.graph, missing)

            def with_zeros(arguments: list[Any]) -> Any:
                for place in missing:
                    arguments[place] = self._zeros(place, arguments)
                results = [*self.whole(arguments)]
                for place in undefined:
                    results[place] = None
                return results

            return with_zeros
        graph, kept = found
        with self.context():
            compiled = self.compile(graph, [self.inputs[place] for place in kept])
        zeros = [place for place in kept if place in missing]

        def part(arguments: list[Any]) -> Any:
            for place in zeros:
                arguments[place] = self._zeros(place, arguments)
            taken = [arguments[place] for place in kept]
            arguments.clear()
            return compiled(taken)

        return part

    def _zeros(self, place: int, arguments: Sequence[Any]) -> torch.Tensor:
        sizes, like = self.sizes[place], self.likes[place]
        assert sizes is not None  # `is_of_parts`
        shape, strides = sizes(arguments)
        return torch.empty_strided(shape, strides, dtype=like.dtype, device=like.device).zero_()


def _context() -> Callable[[], AbstractContextManager[Any]]:
    """A `with` block that is to torch as if a graph were compiled now."""
    from torch._guards import CompileContext, TracingContext, compile_context, tracing

    traced, compiled = TracingContext.try_get(), CompileContext.try_get()

    def entered() -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(tracing(traced) if traced is not None else nullcontext())
        stack.enter_context(compile_context(compiled) if compiled is not None else nullcontext())
        return stack

    return entered


def copied(module: torch.fx.GraphModule) -> Graphed:
    """The graph, with nodes of its own: compiling changes it. (A module would write its code, which nobody calls.)"""
    nodes = torch.fx.Graph()
    nodes.output(nodes.graph_copy(module.graph, {}))
    nodes.output_node().meta = dict(module.graph.output_node().meta)
    return Graphed(module, nodes)


__all__ = ["Parts", "copied", "has_functions_of_several", "plain_metadata", "take_undefined"]
