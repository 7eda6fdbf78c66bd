"""The `torch.compile` hook: from Dynamo's graph to calls of our compiler.

Dynamo hands over one graph per captured frame. AOTAutograd, which is PyTorch's, makes it functional, takes ops apart
as `lowering/capture/decompositions.py` says, traces the backward pass and splits the two; each of the resulting graphs
goes to `cuesta.compiler.compile_graph`. Nothing else of the front is ours.

AOTAutograd's own cache is not used: it engages only for compilers that declare their output serialisable, and its
keys do not know which backend an entry belongs to. (It follows that entries of TorchInductor are never ours.) Importing
AOTAutograd makes PyTorch import parts of TorchInductor, about a quarter of a second; no setting avoids that.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cuesta.caching import artifacts  # noqa: F401 - so that torch knows what artifacts of ours are
from cuesta.collection import collection_paused, pause_while_compiling
from cuesta.dialects.core.deadline import allowing
from cuesta.dialects.core.extension import only
from cuesta.extensions import chosen, seconds_for
from cuesta.logs import tell_graph
from cuesta.names_in_logs import find_names_when_logged
from cuesta.observing import observed, observing
from cuesta.options import Options
from cuesta.profiler_ranges import leave_out_ranges
from cuesta.record import CompileRecord, GraphKind
from cuesta.refused_by_dynamo import take_what_eager_takes
from cuesta.room_for_frames import with_room
from cuesta.sizes_of_given_data import check_sizes_of_given_data
from cuesta.structured_trace import trace_record
from cuesta.updates_as_written import keep_updates_as_written

if TYPE_CHECKING:
    import torch
    from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta

BoxedFunction = Callable[[list[Any]], Any]


def cuesta(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile one Dynamo graph. This is the backend that `torch.compile(backend="cuesta")` finds.

    A function of a module is the same object at every `torch.compile`, as it must be: torch compares backends by
    identity, and a fresh object would recompile.

    Errors: `OptionError` for a mode or an option that does not exist; CuestaError for extensions in conflict.
    """
    pause_while_compiling()
    find_names_when_logged()
    compiled = compiled_by(Compilers(Options.parse(mode, options)), gm, example_inputs)
    leave_out_ranges()
    return compiled


@with_room
def compiled_by(compilers: Compilers, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A Dynamo graph, whose parts these compilers are given. One that AOTAutograd would get wrong, or cannot capture,
    runs in eager, with a warning that says why.
    """
    from torch._dynamo.exc import SkipFrame

    from cuesta.in_eager import left_as_found, why_uncaptured
    from cuesta.lowering.capture.behind_autograd import (
        gradient_of_arguments,
        lost_history,
        lost_requirement,
        lost_storage,
    )
    from cuesta.lowering.capture.dropout_of_nothing import give_what_is_not_dropped, hook_of_what_is_not_dropped
    from cuesta.lowering.capture.dynamo_graph import update_beside_bits, update_of_shared_elements
    from cuesta.lowering.capture.hooks import lost_hook, order_hooks
    from cuesta.lowering.capture.lost_in_views import lost
    from cuesta.lowering.capture.rewritten_updates import rewritten_update
    from cuesta.lowering.capture.unregistered_gradients import unregistered_gradient
    from cuesta.subclass_constructors import leave_constructors

    start = perf_counter()
    try:
        with left_as_found():
            leave_constructors(gm, example_inputs)
            if (misread := rewritten_update(gm) or hook_of_what_is_not_dropped(gm)) is not None:
                warnings.warn(f"cuesta leaves a function to Python: {misread}", stacklevel=4)
                raise SkipFrame(misread)
            give_what_is_not_dropped(gm)
            order_hooks(gm)
            reason = update_of_shared_elements(gm) or update_beside_bits(gm, example_inputs)
            reason = reason or lost_storage(gm, example_inputs) or lost_history(gm, example_inputs)
            reason = reason or lost_requirement(gm, example_inputs)
            reason = reason or lost_hook(gm) or lost(gm) or unregistered_gradient(gm) or gradient_of_arguments(gm)
            if reason is not None:
                return _in_eager(gm, reason)
            if _wants_to_save():
                from cuesta.packages.precompiled import precompiled

                return precompiled(gm, example_inputs, compilers.options)
            compiled = _captured(compilers, gm, example_inputs)
    except Exception as error:
        if error in compilers.failures or _wants_to_save() or (reason := why_uncaptured(error)) is None:
            raise
        return _in_eager(compilers.untouched or gm, reason)
    if compilers.records:
        compilers.records[0].capture_seconds = perf_counter() - start - compilers.seconds
    return compiled


def _captured(compilers: Compilers, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    from torch._dynamo import disable

    from cuesta.aot_autograd import captured
    from cuesta.in_eager import untouched
    from cuesta.lowering.capture.dynamo_graph import numbers_of_loops, tensors_stay
    from cuesta.lowering.capture.gradients_of_functions import say_whose_gradients
    from cuesta.lowering.capture.lost_in_views import negative_results_flipped
    from cuesta.places_of_inputs import at_known_places, places_that_count
    from cuesta.returned_aliases import one_object_each, with_negative_bits
    from cuesta.shared_memory import places_of_inputs, shared_as_before
    from cuesta.subclass_zeros import gradients_as_results, has_subclasses
    from cuesta.values_of_inputs import arrived, numbers_as_said, still_arriving, wrapped_numbers

    if compilers.options.dump_inputs:
        from cuesta.programs.kept_inputs import weights_among

        compilers.weights = weights_among(gm, example_inputs)
    compilers.inputs = len(example_inputs)
    say_whose_gradients(gm)
    compilers.of_subclasses = has_subclasses(gm, example_inputs)
    loops = numbers_of_loops(gm, example_inputs)
    with collection_paused(), capturing(), loops, tensors_stay(example_inputs), only(compilers.extensions):
        numbers = wrapped_numbers(gm)
        example_inputs, arriving = still_arriving(example_inputs)
        places, inputs = places_that_count(gm), places_of_inputs(gm)
        compilers.untouched = untouched(gm) if places or inputs else None
        eager = compilers.untouched or gm
        alike = gradients_as_results() if compilers.of_subclasses else nullcontext()
        with negative_results_flipped(gm) as flipped, alike:
            compiled = captured(gm, example_inputs, compilers.settings())
            compilers.take_undefined()
            compiled = at_known_places(with_negative_bits(compiled, flipped), eager, places)
        compiled = one_object_each(arrived(numbers_as_said(compiled, numbers), arriving), gm)
        # Around all of it, once: Dynamo does the same, and finds that it has been done.
        return disable(shared_as_before(compiled, eager, inputs), reason="do not trace AOT-compiled graph")


def _in_eager(gm: torch.fx.GraphModule, reason: str) -> Callable[..., Any]:
    from cuesta.in_eager import run_in_eager

    warnings.warn(f"cuesta runs a graph in eager: {reason}", stacklevel=5)
    return run_in_eager(gm)


def _wants_to_save() -> bool:
    """Whether Dynamo wants a function that can be saved (`aot_compile`)."""
    import torch._functorch.config as config

    return bool(getattr(config, "bundled_autograd_cache", False)) and bool(config.force_non_lazy_backward_lowering)


def _partition(
    gm: torch.fx.GraphModule, *arguments: Any, num_fwd_outputs: int, random: str = "eager", **options: Any
) -> Any:
    """PyTorch's min-cut partitioner. Importing it costs 0.1 s (networkx), which inference need not pay. `random` is the
    option of that name: draws between products may get keys.
    """
    from functorch.compile import min_cut_rematerialization_partition
    from torch._functorch import config
    from torch.fx._lazy_graph_module import _LazyGraphModule  # pyright: ignore[reportPrivateUsage]

    from cuesta.lowering.capture.as_eager import as_eager
    from cuesta.lowering.capture.equal_nodes import merge_equal_nodes
    from cuesta.lowering.capture.narrow_places import narrow_places
    from cuesta.lowering.capture.recomputed_scores import recompute_scores, save_logarithms
    from cuesta.lowering.capture.rows_in_parts import rows_in_parts
    from cuesta.lowering.capture.saved_states import save_states_with_tensors
    from cuesta.saved_results import tell_saved_results

    as_eager(gm, fills_memory=_fills_memory())
    drop_aliases(gm, unseen=True)
    if config.cse:
        merge_equal_nodes(gm.graph)
    rows_in_parts(gm)
    narrow_places(gm, num_fwd_outputs)
    recompute_scores(gm, num_fwd_outputs, _keyed(gm, random))
    with config.patch(cse=False):
        forward, backward = min_cut_rematerialization_partition(
            gm, *arguments, num_fwd_outputs=num_fwd_outputs, **options
        )
    save_states_with_tensors(forward, backward, num_fwd_outputs)
    save_logarithms(forward, backward)
    tell_saved_results(forward, num_fwd_outputs)
    # It is copied before it is compiled, and nobody calls the copy: no code for it either.
    return forward, _LazyGraphModule.from_graphmodule(backward)


def _keyed(gm: torch.fx.GraphModule, random: str) -> Callable[[torch.device], bool]:
    """On which devices draws of a graph may get keys, by the option `random`."""
    from cuesta.lowering.capture.keyed_draws import DRAWS, keyed_by, no_keys

    if not any(gm.graph.find_nodes(op="call_function", target=target) for target in DRAWS):
        return no_keys
    from cuesta.targets.reference.keyed_draws import define_operators

    define_operators()
    return keyed_by(random)


def _fills_memory() -> bool:
    """Whether eager fills memory that nobody has written: a setting of the process. The graph says it from here on."""
    import torch

    return torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]


def capturing() -> AbstractContextManager[None]:
    """The `with` block to trace in: some operators would be taken apart before our decompositions are asked."""
    from cuesta.lowering.capture.whole_operators import whole_operators

    return whole_operators()


class Compilers:
    """The three compilers that AOTAutograd calls, with their options, what they compiled, and the time spent in them.

    Extensions are those in force now, also for the backward pass, which is compiled when it first runs, in whatever
    thread that is.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.extensions = chosen(options.extensions)
        self.seconds_allowed = seconds_for(options.extension_seconds)
        self.observer = observing()
        self.records: list[CompileRecord] = []
        """Ours alone: `cuesta.records` has those of other threads between them."""
        self.seconds = 0.0
        self.inputs = 0
        """How many inputs the graph has that is to be captured."""
        self.weights = frozenset[int]()
        """Where in memory the model's own tensors begin, when inputs are to be kept."""
        self.has_parts = False
        """Whether a backward pass computes other things for some gradients than for all."""
        self.is_function_of_inputs = True
        """Whether gradients are functions of inputs, as far as is known."""
        self.of_subclasses = False
        """Whether tensors that the graph is given or gives are subclasses."""
        self.open: Sequence[int] = ()
        """The gradients that a backward pass is given as they lie, by their numbers."""
        self.metadata: ViewAndMutationMeta | None = None
        """Of a captured graph that has a backward pass."""
        self.untouched: torch.fx.GraphModule | None = None
        """A Dynamo graph that a later call may run in eager, as it was before it was changed for AOTAutograd."""
        self.failures: list[Exception] = []
        """Of compiling what was captured: no reason to run anything in eager."""

    def settings(self) -> dict[str, Any]:
        """How AOTAutograd is to capture a graph for us."""
        from cuesta.lowering.capture.decompositions import decomposition_table

        return {
            "fw_compiler": self.of("forward"),
            "bw_compiler": self.of("backward"),
            "inference_compiler": self.of("inference"),
            "partition_fn": self.partition,
            "decompositions": decomposition_table(),
            # Writes to inputs end the graph, which is functional otherwise; see `aten.writes_to`.
            "keep_inference_input_mutations": True,
        }

    def partition(self, gm: torch.fx.GraphModule, *arguments: Any, **options: Any) -> Any:
        """The forward and the backward graph of a joint one."""
        from cuesta.gradient_layouts import open_places
        from cuesta.lowering.capture.gradients_of_functions import drop_marks, resolve_marks
        from cuesta.lowering.capture.undefined_gradients import is_of_parts, mark_gradients_of_nothing, tangents_of
        from cuesta.second_derivatives import is_function_of_inputs

        self.is_function_of_inputs = is_function_of_inputs(gm.graph)
        mark_gradients_of_nothing(gm.graph, options["num_fwd_outputs"])
        if len(tangents_of(gm.graph)) < 2:
            drop_marks(gm.graph)
        forward, backward = _partition(gm, *arguments, random=self.options.random, **options)
        resolve_marks(backward.graph)
        self.has_parts = is_of_parts(backward, self.of_subclasses)
        # Subclasses have metas of their own. Under CUDA graphs all inputs are copied, to where they are read.
        if not (self.of_subclasses or self.options.captures):
            self.open = open_places(backward)
        return forward, backward

    def take_undefined(self) -> None:
        """Lets autograd give None for gradients that there are not to what was captured, if that makes a difference,
        and all others as they lie, and gradients of gradients be asked for aloud.
        """
        from cuesta.gradient_layouts import take_as_they_lie
        from cuesta.second_derivatives import connect_gradients
        from cuesta.undefined_gradients import function_of, take_undefined

        if self.metadata is not None and (made := function_of(self.metadata)) is not None:
            take_undefined(made, has_parts=self.has_parts, of_subclasses=self.of_subclasses)
            take_as_they_lie(made, self.open)
            connect_gradients(made, is_function_of_inputs=self.is_function_of_inputs)

    def compile(self, gm: torch.fx.GraphModule, record: CompileRecord) -> BoxedFunction:
        """Compiles one graph of AOTAutograd's."""
        from cuesta.compiler import WEIGHTS, compile_graph

        if self.weights:
            gm.meta[WEIGHTS] = self.weights
        return compile_graph(gm, record, self.options)

    def of(self, kind: GraphKind) -> Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]:
        """The compiler of one kind of graph."""
        return self._backward if kind == "backward" else functools.partial(self._compile, kind)

    def _backward(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> BoxedFunction:
        if not self.open:
            return self._backward_as_given(gm, example_inputs)
        from cuesta.gradient_layouts import Layouts

        layouts = Layouts(gm, example_inputs, self.open, self._backward_as_given)

        def backward(arguments: list[Any]) -> Any:
            return layouts(arguments)

        backward._boxed_call = True  # type: ignore[attr-defined]
        return backward

    def _backward_as_given(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> BoxedFunction:
        """A backward pass that is given gradients that lie as the examples do."""
        from cuesta.lowering.capture.gradients_of_functions import drop_marks

        def compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> BoxedFunction:
            drop_marks(gm.graph)
            return self._compile("backward", gm, example_inputs)

        if not self.has_parts:
            return compile(gm, example_inputs)
        from cuesta.undefined_gradients import Parts, copied

        pristine = copied(gm)
        parts = Parts(compile(gm, example_inputs), pristine, example_inputs, compile, zeros=self.of_subclasses)

        def backward(arguments: list[Any]) -> Any:
            return parts(arguments)

        backward._boxed_call = True  # type: ignore[attr-defined]
        return backward

    @with_room
    def _compile(self, kind: GraphKind, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> BoxedFunction:
        start, record = perf_counter(), CompileRecord(kind=kind)
        self.records.append(record)
        with collection_paused(), only(self.extensions), allowing(self.seconds_allowed), observed(self.observer):
            from cuesta.first_calls import unwatched
            from cuesta.lowering.capture.as_eager import as_eager
            from cuesta.lowering.capture.fx_storages import exchange_last
            from cuesta.lowering.capture.objects import hold_real_objects
            from cuesta.lowering.capture.recomputed_scores import key_draws
            from cuesta.places_of_inputs import count_slices_from_their_bases
            from cuesta.returned_aliases import (
                computed_parts,
                counting_apart,
                refuse_lost_tokens,
                refuse_moved_updates,
                view_the_inputs,
                views_of_parts,
            )
            from cuesta.saved_results import (
                count_visible_results,
                detach_what_is_seen,
                report_strides,
                save_what_was_read,
                take_example_inputs,
            )
            from cuesta.undefined_gradients import captured_metadata
            from cuesta.values_of_inputs import addressed, given_memory, given_plain, read_memory, read_plain

            if kind != "backward":
                refuse_lost_tokens(gm)
                refuse_moved_updates()
            count_slices_from_their_bases(gm)
            if kind == "forward":
                self.metadata = captured_metadata()
                count_visible_results(gm)
            detach_what_is_seen(gm, kind)
            drop_aliases(gm)
            hold_real_objects(gm)
            if kind == "inference":
                as_eager(gm, fills_memory=_fills_memory())
                key_draws(gm, _keyed(gm, self.options.random))
            if kind == "forward":
                save_what_was_read(gm)
            if kind == "backward":
                take_example_inputs(gm, example_inputs)
            plain = read_plain(gm) if kind == "backward" else ()
            flipped = read_memory(gm)
            exchange_last(gm)
            if kind != "backward" and not self.of_subclasses:  # metadata may be of parts, and not say so
                view_the_inputs(gm, [position for position, _ in flipped])
            flipped = [*flipped, *(addressed(gm) if self.options.captures else ())]
            if self.options.frozen and kind == "inference":
                from cuesta.frozen import mark_frozen

                mark_frozen(gm, self.inputs, captures=self.options.captures)
            subclass_parts = computed_parts(gm) if self.of_subclasses and kind != "backward" else ()
            seen_parts = views_of_parts(gm, subclass_parts)
            try:
                compiled, parts = self._captured(gm, record)
            except Exception as error:
                self.failures.append(error)
                raise
            if kind == "forward":
                report_strides(() if parts else record.result_strides)
            compiled = unwatched(given_plain(given_memory(compiled, flipped), plain), gm)
            compiled = counting_apart(compiled, subclass_parts, seen_parts)
        seconds = perf_counter() - start
        # What no stage has counted: importing the compiler, most of it.
        record.seconds["load-compiler"] = seconds - sum(sum(one.seconds.values()) for one in (record, *parts))
        self.seconds += seconds
        tell_graph(record)
        trace_record(record)
        return compiled

    def _captured(self, gm: torch.fx.GraphModule, record: CompileRecord) -> tuple[BoxedFunction, list[CompileRecord]]:
        """A graph, compiled, and captured if wished; of one compiled in parts, the records of all but the first."""
        if self.options.captures:
            from cuesta.cuda_graphs.capturing import captured, compiled_in_parts

            if (found := compiled_in_parts(gm, record, self.compile)) is not None:
                compiled, parts = found
                self.records.extend(parts[1:])
                return compiled, parts[1:]
            return captured(self.compile(gm, record), gm, record.kind, record), []
        return self.compile(gm, record), []


def drop_aliases(gm: torch.fx.GraphModule, *, unseen: bool = False) -> None:
    """alias(x) -> x and detach(x) -> x, in place; autograd leaves one for each tensor that it saves.

    One that is an output stays: who gets the outputs may expect different objects. With `unseen`, so does one of which
    an output is a view: see `detach_what_is_seen`. (PyTorch's partitioner takes a detach for memory of its own: it
    would save the logarithms of a cross entropy in place of its logits and two numbers of a row.)
    """
    import torch

    from cuesta.lowering.capture.said_of_nodes import is_view

    aliases = (torch.ops.aten.alias.default, torch.ops.aten.detach.default)
    output = gm.graph.output_node()
    seen = set(output.all_input_nodes)
    if unseen:
        for node in reversed(gm.graph.nodes):
            if node in seen and is_view(node):
                seen.add(node.args[0])
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in aliases and node not in seen:
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)


class _CallableModule(types.ModuleType):
    """This module, called: `torch.compile(f, backend=cuesta.backend)` is `torch.compile(f, backend="cuesta")`."""

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **chosen: Any) -> Callable[..., Any]:
        return self.cuesta(gm, example_inputs, **chosen)

    @property
    def cuesta(self) -> Callable[..., Any]:
        """The backend, as torch looks it up by its name: Dynamo is imported then, whoever imported this before."""
        take_what_eager_takes()
        keep_updates_as_written()
        check_sizes_of_given_data()
        return globals()["cuesta"]


sys.modules[__name__].__class__ = _CallableModule
# torch imports this when it is asked for the backend: before it compiles anything with it.
pause_while_compiling()
find_names_when_logged()
