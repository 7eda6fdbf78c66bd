"""Backward passes that are asked for the gradients of some results: AOTAutograd's class for them, and what it calls.

Autograd makes zeros of gradients that nobody has, unless a function says that it takes None. AOTAutograd's does not say
so; `take_undefined` does for it, where a backward graph has parts (`lowering/capture/undefined_gradients.py`), or where
a result is a tensor subclass: autograd's zeros are plain tensors, which AOTAutograd refuses (`subclass_zeros.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from cuesta.in_eager import UncapturedError
from cuesta.lowering.capture.undefined_gradients import Graphed
from cuesta.subclass_zeros import give_zeros, undefined_parts, undefined_zeros

if TYPE_CHECKING:
    from torch._functorch._aot_autograd.schemas import SubclassCreationMeta, ViewAndMutationMeta

BoxedFunction = Callable[[list[Any]], Any]
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]


def captured_metadata() -> ViewAndMutationMeta | None:
    """What AOTAutograd knows of the graph that it compiles now: of plain tensors, those that subclasses are made of."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return None if context is None else context.fw_metadata


def function_of(metadata: ViewAndMutationMeta) -> Any:
    """The function of autograd's that AOTAutograd has made of what it knows so; None if it has made none."""
    found = reversed(torch.autograd.Function.__subclasses__())
    return next((one for one in found if _is_of(one, metadata)), None)


def take_undefined(made: Any, *, has_parts: bool, of_subclasses: bool) -> None:
    """Lets a function of autograd's that AOTAutograd has made be given None for undefined gradients, if that makes a
    difference: the backward graph has parts, or one of the gradients is that of a tensor subclass. Where there are
    subclasses, all of them become zeros that say so.

    Near miss: nested tensors, of which autograd makes nested zeros.

    Errors: UncapturedError, of gradients of two kinds.
    """
    from torch._guards import TracingContext
    from torch.nested._internal.nested_tensor import NestedTensor

    if of_subclasses != (made.maybe_subclass_metadata is not None):
        return
    subclasses = _subclasses(made.metadata)
    if any(issubclass(one, NestedTensor) for one in subclasses) or not (has_parts or subclasses):
        return
    if of_subclasses:
        refuse_gradients_of_two_kinds(made)
        context = TracingContext.try_get()
        mode: Any = None if context is None else context.fake_mode
        environment = None if mode is None else mode.shape_env
        has_symbols = environment is not None and bool(environment.var_to_range)
        give_zeros(made, len(made.metadata.subclass_tangent_meta), environment if has_symbols else None)
    made._backward_cls.__init__ = lambda node: node.set_materialize_grads(False)  # autograd makes one for each call
    made._compiled_autograd_key = staticmethod(_with_zeros(made._compiled_autograd_key))


def _is_of(function: Any, metadata: ViewAndMutationMeta) -> bool:
    if function.__name__ != "CompiledFunction":
        return False
    parts = getattr(function, "maybe_subclass_metadata", None)
    return getattr(function, "metadata", None) is metadata or getattr(parts, "fw_metadata", None) is metadata


def _subclasses(metadata: ViewAndMutationMeta) -> list[type]:
    """The tensor subclasses among the gradients that a backward pass is given."""
    from torch._functorch._aot_autograd.schemas import SubclassCreationMeta

    return [_type_of(one) for one in metadata.subclass_tangent_meta if isinstance(one, SubclassCreationMeta)]


def _type_of(subclass: SubclassCreationMeta) -> type:
    return subclass.original_subclass_type or type(subclass.original_subclass)


def _kind_of(said: object) -> object:
    """What AOTAutograd knows of a tensor's kind: its type, and the kinds of its parts; None of a plain one."""
    from torch._functorch._aot_autograd.schemas import SubclassCreationMeta

    if not isinstance(said, SubclassCreationMeta):
        return None
    return _type_of(said), {name: _kind_of(part) for name, part in said.attrs.items()}


def refuse_gradients_of_two_kinds(made: Any) -> None:
    """Nothing, unless the gradient of an input is a subclass of another kind than the input for some results and, for
    all that anybody knows, of the input's kind for others: x + pair, x.sin() of a plain x, or of one that is a pair
    itself, when the sum is a pair of pairs. The kind that AOTAutograd gives is that for all results together.

    Errors: UncapturedError.
    """
    from torch._functorch._aot_autograd.schemas import SubclassCreationMeta

    tangents, inputs = made.metadata.subclass_tangent_meta, made.metadata.subclass_inp_meta
    if len(tangents) < 2:
        return
    kinds = [_kind_of(one) for one in tangents]
    gradients = made.maybe_subclass_metadata.grad_input_metas or ()
    for position, (given, gradient) in enumerate(zip(inputs, gradients, strict=False)):
        kind = _kind_of(given)
        if isinstance(gradient, SubclassCreationMeta) and _kind_of(gradient) != kind and kind in kinds:
            raise UncapturedError(f"the gradient of input {position} is of another kind for each result")


def _with_zeros(key: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What compiled autograd asks a node for before it takes its backward graph to pieces: that needs zeros."""

    def asked(node: Any) -> Any:
        node.set_materialize_grads(True)
        return key(node)

    return asked


class Parts:
    """A backward pass, and its parts: each is compiled when it is first asked for. With `zeros`, undefined gradients
    come as zeros that say so, and go so.
    """

    def __init__(
        self, whole: BoxedFunction, graph: Graphed, inputs: Sequence[Any], one: Compile, *, zeros: bool = False
    ) -> None:
        from cuesta.lowering.capture.undefined_gradients import tangents_of

        self.whole, self.graph, self.inputs, self.compile, self.zeros = whole, graph, inputs, one, zeros
        placeholders = graph.graph.find_nodes(op="placeholder")
        self.places = [placeholders.index(node) for node in tangents_of(graph.graph)]
        self.likes = {place: _Like(graph.graph, placeholders[place], zeros) for place in self.places}
        self.parts: dict[tuple[int, ...], BoxedFunction] = {}
        self.context = in_this_context()

    def __call__(self, arguments: list[Any]) -> Any:
        """Its results; None, or zeros that say so, for each that depends on undefined gradients alone."""
        missing = tuple(place for place, gone in zip(self.places, self._gone(arguments), strict=True) if gone)
        if not missing:
            return self.whole(arguments)
        if (part := self.parts.get(missing)) is None:
            part = self.parts[missing] = self._part(missing)
        return part(arguments)

    def _gone(self, arguments: list[Any]) -> Sequence[bool]:
        """Of each gradient that it is given: whether it is undefined."""
        if not self.zeros:
            return [arguments[place] is None for place in self.places]
        gone = undefined_parts()
        return gone if gone is not None and len(gone) == len(self.places) else [False] * len(self.places)

    def _part(self, missing: tuple[int, ...]) -> BoxedFunction:
        from cuesta.lowering.capture.undefined_gradients import undefined_with, without

        found = without(self.graph, missing)
        undefined = self._undefined(undefined_with(self.graph, missing))
        if undefined is None:
            return self.whole
        if found is None:

            def with_zeros(arguments: list[Any]) -> Any:
                self._fill(missing, arguments)
                gone = {place: like(arguments) for place, like in undefined.items()}
                return _with(self.whole(arguments), gone)

            return with_zeros
        graph, kept = found
        with self.context():
            compiled = self.compile(graph, [self.inputs[place] for place in kept])
        zeros = [place for place in kept if place in missing]

        def part(arguments: list[Any]) -> Any:
            self._fill(zeros, arguments)
            gone = {place: like(arguments) for place, like in undefined.items()}
            taken = [arguments[place] for place in kept]
            arguments.clear()
            return _with(compiled(taken), gone)

        return part

    def _fill(self, places: Sequence[int], arguments: list[Any]) -> None:
        """Puts zeros in the place of undefined gradients."""
        for place in places:
            if arguments[place] is None:
                arguments[place] = self.likes[place](arguments)

    def _undefined(self, places: Sequence[int]) -> dict[int, Callable[[Sequence[Any]], Any]] | None:
        """What makes the results that are undefined, by their places; None if their sizes cannot be known."""
        results: Any = self.graph.graph.output_node().args[0]
        if not self.zeros:
            return {place: lambda _: None for place in places if results[place] is not None}
        likes = {place: _Like(self.graph.graph, results[place], True) for place in places if results[place] is not None}
        return None if any(like.sizes is None for like in likes.values()) else {**likes}


class _Like:
    """Makes zeros that lie as a tensor of a graph does, and say that they stand for a gradient that there is not."""

    def __init__(self, graph: torch.fx.Graph, node: torch.fx.Node, zeros: bool) -> None:
        from cuesta.lowering.capture.undefined_gradients import sizes_of

        self.sizes, self.like = sizes_of(graph, node, zeros), node.meta.get("val")

    def __call__(self, arguments: Sequence[Any]) -> torch.Tensor:
        assert self.sizes is not None and self.like is not None  # `is_of_parts`
        shape, strides = self.sizes(arguments)
        return undefined_zeros(shape, strides, self.like.dtype, self.like.device)


def _with(results: Sequence[Any], others: Mapping[int, Any]) -> Sequence[Any]:
    """The results, but others in some places."""
    if not others:
        return results
    changed = [*results]
    for place, other in others.items():
        changed[place] = other
    return changed


def in_this_context() -> Callable[[], AbstractContextManager[Any]]:
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


__all__ = [
    "Parts",
    "captured_metadata",
    "copied",
    "function_of",
    "in_this_context",
    "take_undefined",
]
