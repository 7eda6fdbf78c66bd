"""A graph of torch's, compiled for a package: AOTAutograd makes its passes, our compiler their programs.

The graph is one as Dynamo hands them to backends: all tensors are inputs, and so are the numbers that sizes are made
of. Nothing of AOTAutograd is left when a package runs: what its wrappers do for a graph is noted in the `Plan`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch.utils import _pytree as pytree

from cuesta.aot_autograd import captured
from cuesta.backend import BoxedFunction, Compilers, capturing
from cuesta.caching.entry import Entry
from cuesta.caching.place import Place
from cuesta.collection import collection_paused
from cuesta.compiler import compile_graph
from cuesta.dialects.core.extension import only
from cuesta.finishing import finish_equal
from cuesta.in_eager import why_uncaptured
from cuesta.packages.fakes import tell_values
from cuesta.packages.graph import Graph, PackageError, Pass, Plan, Result, Tangent, View
from cuesta.packages.views import with_views
from cuesta.places_of_inputs import places_that_count
from cuesta.record import CompileRecord
from cuesta.saved_results import tokens_of

if TYPE_CHECKING:
    from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta

    from cuesta.options import Options
    from cuesta.targets.program import Program

_numbers = itertools.count()

_ORDINARY = ("non_alias", "unsafe_view_alias", "custom_function_view")
"""Kinds of results that are tensors of their own, for AOTAutograd."""


def capture(gm: torch.fx.GraphModule, inputs: Sequence[Any], options: Options) -> Graph:
    """Compiles a graph for inputs like these, which are fake tensors and numbers of one mode; with its backward pass
    where gradients are enabled and some input wants one.

    Errors: PackageError; what the compiler raises.
    """
    from cuesta.lowering.capture.dropout_of_nothing import give_what_is_not_dropped
    from cuesta.lowering.capture.dynamo_graph import numbers_of_loops, update_of_shared_elements
    from cuesta.lowering.capture.lost_in_views import lost
    from cuesta.lowering.capture.unregistered_gradients import unregistered_gradient

    if any(isinstance(one, torch.Tensor) and (one.is_neg() or one.is_conj()) for one in inputs):
        raise PackageError("an input has the negative or the conjugate bit: give a copy (`x.resolve_neg()`) instead")
    if (found := _not_strided(gm)) is not None:
        raise PackageError(f"a program of tensors with the layout {found}: nobody knows how many elements they have")
    mode = detect_fake_mode(inputs)
    give_what_is_not_dropped(gm)
    if mode is not None and not any("example_value" in node.meta for node in gm.graph.nodes):
        with _naming_what_is_not_captured():
            tell_values(gm, inputs, mode)
    if (reason := update_of_shared_elements(gm) or lost(gm) or unregistered_gradient(gm, inputs)) is not None:
        raise PackageError(f"what eager would run cannot be packaged: {reason}")
    if places_that_count(gm):
        raise PackageError("an operator writes to a view of an input by its place in memory: a slice would do")
    packing = _Packing(options, inputs)
    loops = numbers_of_loops(gm, inputs)
    ours, naming = only(packing.extensions), _naming_what_is_not_captured(packing.failures)
    with collection_paused(), capturing(), loops, ours, tracing(TracingContext(mode)), _at_once(), naming:
        captured(gm, inputs, packing.settings())
    graph = packing.graph()
    return Graph(with_views(graph.plan, gm, inputs, mode), graph.forward, graph.backward)


@contextmanager
def _naming_what_is_not_captured(failures: Sequence[Exception] = ()) -> Generator[None]:
    """In its `with` block an error for which eager would run a graph says so. `failures` are to be raised as they are.

    Errors: PackageError.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, PackageError) or error in failures or (why := why_uncaptured(error)) is None:
            raise
        raise PackageError(f"what eager would run cannot be packaged: {why}") from error


def _not_strided(gm: torch.fx.GraphModule) -> torch.layout | None:
    """The layout of a tensor of the graph that is not strided, if there is one. (Fakes of sparse ones are empty.)"""
    from cuesta.lowering.capture.dynamo_graph import value_of

    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            for value in pytree.tree_leaves(value_of(node)):
                if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
                    return value.layout
    return None


def _at_once() -> Any:
    """The `with` block in which AOTAutograd has backward passes compiled at once, and keeps nothing of its own."""
    import torch._functorch.config as config

    quiet = {
        name: False
        for name in ("strict_autograd_cache", "bundled_autograd_cache", "force_autograd_cache")
        if hasattr(config, name)
    }
    return config.patch(force_non_lazy_backward_lowering=True, **quiet)


class _Kept(Place):
    """The place of a program that goes into a package."""

    part: Pass | None = None

    def look_up(self) -> BoxedFunction | None:
        """None: it is compiled."""
        return None

    def keep(self, program: Program, constants: Sequence[str]) -> None:
        """Notes the program."""
        told = ("aten_ops", "kernels", "library_calls", "fallbacks", "result_strides")
        entry = Entry.of(program, self.gm, constants, **{name: getattr(self.record, name) for name in told})
        # A frozen dataclass: the one thing about it that is not known from the start.
        object.__setattr__(self, "part", Pass(entry, entry.constants_for(self.gm)))


class _Packing(Compilers):
    """Compilers that keep what they made."""

    def __init__(self, options: Options, given: Sequence[Any]) -> None:
        super().__init__(options)
        self.given = given
        self.passes: dict[str, Pass] = {}
        self.plan: Plan | None = None
        self.returned: list[str] = []
        """The names that a forward pass's results have in the backward pass."""
        self.saved: list[str] = []

    def compile(self, gm: torch.fx.GraphModule, record: CompileRecord) -> BoxedFunction:
        """Compiles one graph to the end."""
        place = _Kept(gm, record, None, f"package {next(_numbers)}")
        if record.kind == "backward":
            self._plan_backward(gm)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            function = compile_graph(gm, record, self.options, place)
        assert place.key is not None
        finish_equal(place.key)
        if place.part is None:
            reasons = "; ".join(str(one.message) for one in said) or "its kernels have no machine code"
            raise PackageError(f"what eager runs cannot be packaged: {reasons}")
        if any(not isinstance(one, torch.Tensor) for one in place.part.constants):
            raise PackageError("what eager runs cannot be packaged: the graph of a loop or a branch")
        for one in said:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        self.passes[record.kind] = place.part
        if record.kind != "backward":
            self._plan_forward(gm, training=record.kind == "forward")
        return function

    def partition(self, gm: torch.fx.GraphModule, *arguments: Any, **options: Any) -> Any:
        """The two graphs of a joint one. The backward one takes gradients that lie as the plan says: it is compiled at
        once, and nobody compiles it again for others.
        """
        forward, backward = super().partition(gm, *arguments, **options)
        self.open = ()
        self.returned = list(map(str, forward.graph.output_node().args[0]))
        return forward, backward

    def graph(self) -> Graph:
        """What was compiled. Errors: PackageError."""
        forward = self.passes.get("inference") or self.passes.get("forward")
        if forward is None or self.plan is None or ("forward" in self.passes) != ("backward" in self.passes):
            raise PackageError("AOTAutograd compiled nothing, or no backward pass")
        return Graph(self.plan, forward, self.passes.get("backward"))

    def _plan_forward(self, gm: torch.fx.GraphModule, *, training: bool) -> None:
        metadata = _metadata()
        if len(metadata.input_info) != len(self.given):  # AOTAutograd has made one tensor of several
            raise PackageError("inputs that share memory, and a program that changes one of them: give copies")
        # Placed results: what inputs are to be, results of the user's, bases of those that share memory.
        copied = tuple((place, k) for k, place in enumerate(metadata.mutated_inp_runtime_indices))
        for place, _ in copied:
            if metadata.input_info[place].mutates_metadata:
                raise PackageError("a program that changes the sizes, strides or memory of an input")
        results = tuple(_result(metadata, number, len(copied)) for number in range(len(metadata.output_info)))
        given = metadata.input_info
        written = {place for place, info in enumerate(given) if info.mutates_data}
        hidden = tuple(place for place, _ in copied if _is_hidden(given[place], self.given[place]))
        tokens = tokens_of(metadata)
        every: Any = gm.graph.output_node().args[0]
        visible = int(metadata.num_forward) if training else len(every) - tokens
        # Some are copies by now of what the backward pass knows.
        names = self.returned if len(self.returned) == len(every) else list(map(str, every))
        self.saved = names[tokens + visible :]
        changes = {"copied_back": copied, "hidden": hidden, "written": tuple(sorted(written))}
        self.plan = Plan(results, tokens, **changes, visible=visible)

    def _plan_backward(self, gm: torch.fx.GraphModule) -> None:
        assert self.plan is not None
        metadata = _metadata()
        saved: list[int] = []
        expected = _tangents(metadata)
        tangents: list[Tangent] = []
        for node in gm.graph.find_nodes(op="placeholder"):
            if node.name in self.saved:
                saved.append(self.plan.visible + self.saved.index(node.name))
            elif "tangents" in str(node.target) and len(tangents) < len(expected):
                tangents.append(_tangent(expected[len(tangents)], node.meta["val"]))
            else:
                raise PackageError(f"a backward pass that takes {node.target}")
        if len(tangents) != len(expected):
            raise PackageError(f"a backward pass with {len(tangents)} gradients of {len(expected)} results")
        self.plan = replace(self.plan, saved=tuple(saved), tangents=tuple(tangents))


def _metadata() -> ViewAndMutationMeta:
    context = TracingContext.try_get()
    assert context is not None and context.fw_metadata is not None
    metadata = context.fw_metadata
    every = [*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta]
    if any(hasattr(one, "original_subclass") for one in every):
        raise PackageError("a program of tensor subclasses cannot be packaged")
    return metadata


def _is_hidden(info: Any, given: Any) -> bool:
    """Whether an input changes behind autograd's back. (A leaf that wants a gradient changes in no other way.)"""
    return (
        (info.is_leaf and given.requires_grad)
        or info.mutations_hidden_from_autograd
        or info.mutations_under_no_grad_or_inference_mode
    )


def _result(metadata: ViewAndMutationMeta, number: int, before: int) -> Result:
    """How a result of the user's is made; `before` come before the first of the graph's."""
    info: Any = metadata.output_info[number]
    kind = info.output_type.name
    place = before + number
    if kind in _ORDINARY:
        return Result(place)
    if kind == "is_input":
        return Result(place, input=int(info.base_idx))
    view = View((), (), 0, "", is_detached=not info.requires_grad)  # how it lies is found out later
    if kind == "alias_of_input":
        return Result(place, input=int(info.base_idx), view=view)
    first = before + len(metadata.output_info) if kind != "alias_of_intermediate_base_is_user_output" else before
    return Result(place, base=first + int(info.base_idx), view=view)


def _tangents(metadata: ViewAndMutationMeta) -> list[int]:
    """The forward results whose gradients a backward pass takes, in its order.

    Source: `f_tangents` of torch/_functorch/_aot_autograd/collect_metadata_analysis.py.
    """
    before = metadata.num_mutated_inp_runtime_indices
    changed = [metadata.input_info[place] for place in metadata.mutated_inp_runtime_indices]
    found = [k for k, info in enumerate(changed) if info.mutates_data and info.requires_grad]
    for number, one in enumerate(metadata.output_info):
        info: Any = one
        wants = getattr(info, "requires_grad_for_backward", info.requires_grad)
        if info.output_type.name in _ORDINARY and issubclass(info.raw_type, torch.Tensor) and wants:
            found.append(before + number)
    bases = before + len(metadata.output_info)
    return [*found, *range(bases, bases + metadata.num_intermediate_bases)]


def _tangent(result: int, value: torch.Tensor) -> Tangent:
    strides = tuple(value.stride())
    if all(isinstance(stride, int) for stride in strides):
        return Tangent(result, strides, "")
    layout = torch._prims_common.suggest_memory_format(value)
    if not value.is_contiguous(memory_format=layout):
        raise PackageError("a program whose gradients are laid out as no memory format of torch is, with dynamic sizes")
    return Tangent(result, None, str(layout).removeprefix("torch."))
