"""`mode="reduce-overhead"`: what a compiled graph launches is captured as a CUDA graph, which one call launches again.

The first call runs as it is. The second is captured, and from then on calls replay; every combination of sizes and
every stream has a capture of its own. Nothing that a user can see changes, but for speed and memory:

* An input that lies where it lay at the call before (a parameter, a buffer) is read there. What lies elsewhere every
  time is copied into memory of the capture. Every call looks at the addresses; one that changed means a new capture.
* What a call returned stays as it is. Results are handed out in the memory of the capture, with no copy; who has them
  is looked at when the next call comes. Where somebody has, that call replays another capture, up to three, if they
  are small beside the device's memory; results that pile up all the same keep the memory that they have, and from then
  on are copied. (So is at once what a user sees of a forward pass that saves more: what is saved is to stay where the
  backward pass reads it.) What nobody refers to may be overwritten: work on *another stream* that reads a result has to
  be waited for before the result is dropped (`Tensor.record_stream` tells the allocator, and does not tell a capture).

A graph of which some calls cannot be captured is captured in parts around them, where that can be done
(`parts.py`); its `CompileRecord` says which. One that cannot be captured runs as ever, and says why: with a
warning, and in its record.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from cuesta.cuda_graphs.captured_function import Capture, CapturedFunction, Function, Refused
from cuesta.cuda_graphs.parts import divided, joined, move_numbers, tensors_of
from cuesta.dialects.core.devices import TRAITS
from cuesta.lowering.capture.stack_traces import line_of
from cuesta.record import CompileRecord
from cuesta.saved_results import visible_results
from cuesta.targets.triton.driver import current_stream

if TYPE_CHECKING:
    from cuesta.record import GraphKind


class CudaDevice:
    """Captures on a CUDA device."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.tried = False

    def stream(self) -> int | None:
        """The stream that calls run on now; None while somebody else captures it, who captures what we launch, too."""
        if torch.cuda.is_current_stream_capturing():
            return None
        return current_stream(self.index)

    def warm_up(self, function: Function, args: list[Any]) -> Any:
        """Runs the function as it is, and watches for what waits for the device.

        Errors: Refused carries the results as its second argument.
        """
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                results = function(args)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        waits = [one for one in caught if "synchronizing CUDA operation" in str(one.message)]
        for one in caught:
            if one not in waits and "Synchronization debug mode" not in str(one.message):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        if waits:
            raise Refused("something in it makes the host wait for the device", results)
        return results

    def capture(self, function: Function, args: list[Any]) -> Capture:
        """Captures what the function launches, which does not run yet.

        Errors: Refused, with the words of torch or of CUDA.
        """
        with torch.cuda.device(self.index), _capturing:
            if not self.tried:
                self._try(function, args)
                self.tried = True
            graph = torch.cuda.CUDAGraph()
            before = torch.cuda.memory_reserved(self.index)
            results = self._record(graph, function, args)
            taken = max(0, torch.cuda.memory_reserved(self.index) - before)
            return Capture(graph.replay, results, taken / torch.cuda.get_device_properties(self.index).total_memory)

    def _try(self, function: Function, args: list[Any]) -> None:
        """A capture for nothing: one that fails leaves the generator of random numbers broken (torch before 2.13).

        So it is done with a copy of the generator's state, which goes afterwards. Captures refer to the original.
        """
        generator = torch.cuda.default_generators[self.index]
        original = generator.graphsafe_get_state()
        generator.graphsafe_set_state(generator.clone_state())
        try:
            self._record(torch.cuda.CUDAGraph(keep_graph=True), function, args)
        finally:
            generator.graphsafe_set_state(original)

    def _record(self, graph: torch.cuda.CUDAGraph, function: Function, args: list[Any]) -> Sequence[Any]:
        torch.cuda.synchronize()
        pool = torch.cuda.graph_pool_handle()  # one of its own
        with torch.cuda.stream(self._capturing_stream()), _own_workspaces():
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                results = function(list(args))
                graph.capture_end()
            except Exception as error:
                self._end_after_failure(graph, pool)
                raise Refused(_first_line(error)) from error
        return results

    def _end_after_failure(self, graph: torch.cuda.CUDAGraph, pool: Any) -> None:
        """Has torch see the end of a capture that failed. It says so again, and stops before its allocator knows.

        An allocator that believes in a capture gives no memory back to the device.
        """
        with suppress(RuntimeError):
            graph.capture_end()
        with suppress(RuntimeError, AttributeError):
            torch._C._cuda_endAllocateToPool(self.index, pool)
            torch._C._cuda_releasePool(self.index, pool)

    def _capturing_stream(self) -> torch.cuda.Stream:
        """One for each stream that captures are replayed on: libraries keep memory of theirs for every stream."""
        key = self.index, current_stream(self.index)
        if key not in _streams:
            _streams[key] = torch.cuda.Stream(self.index)
        return _streams[key]


@contextmanager
def _own_workspaces() -> Iterator[None]:
    """The `with` block in which a capture begins and ends: what cuBLAS works in lies in the memory of the capture.

    torch keeps one workspace for each stream, until somebody has all of them forgotten, as TorchInductor does when it
    captures. A graph that uses memory of another capture, or of none, would go on writing to it after that.
    """
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


_capturing = threading.RLock()
_streams: dict[tuple[int, int], torch.cuda.Stream] = {}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def compiled_in_parts(
    gm: torch.fx.GraphModule,
    record: CompileRecord,
    compile_part: Callable[[torch.fx.GraphModule, CompileRecord], Function],
) -> tuple[Function, list[CompileRecord]] | None:
    """A graph that cannot be captured as a whole, compiled and captured in parts, and the parts' records, of which
    `record` is the first. None if it can be captured, or cannot be divided.
    """
    devices = _devices(gm)
    if not any(map(_can_capture, devices)) or not (reason := _obstacle(gm, devices)):
        return None
    counts = Counter(value.device for node in gm.graph.nodes for value in tensors_of(node))
    device = max(filter(_can_capture, devices), key=lambda one: (counts[one], str(one)))
    gm = _copy(gm)
    move_numbers(gm, device)
    if (parts := divided(gm, lambda node: _obstacle_of(node, device))) is None:
        return None
    functions: list[Function] = []
    records: list[CompileRecord] = []
    for number, part in enumerate(parts, 1):
        one = record if number == 1 else CompileRecord(kind="inference")
        # All that a part returns lies as it did in the graph: the next part is compiled for that.
        one.kind, kind = "inference", record.kind
        function = compile_part(part.gm, one)
        if part.captured:
            function = captured(function, part.gm, "inference", one)
        else:
            one.cuda_graph = f"not captured: {reason}"
        one.kind = kind
        one.cuda_graph = f"{one.cuda_graph} (part {number} of {len(parts)})"
        functions.append(function)
        records.append(one)
    return joined(gm, parts, functions), records


def _copy(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return torch.fx.GraphModule(gm, graph)


def captured(function: Function, gm: torch.fx.GraphModule, kind: GraphKind, record: CompileRecord) -> Function:
    """The function of a compiled graph, captured where that can be; otherwise as it is, and the record says why."""
    devices = _devices(gm)
    if not any(map(_can_capture, devices)):
        record.cuda_graph = "not captured: nothing of it runs on a CUDA device"
        return function

    def tell(reason: str) -> None:
        record.cuda_graph = f"not captured: {reason}"
        warnings.warn(f"cuesta: a graph ({kind}) is not captured as a CUDA graph: {reason}", stacklevel=2)

    if reason := _obstacle(gm, devices):
        tell(reason)
        return function
    (device,) = devices
    inputs = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    record.cuda_graph = "captured"
    wrapped = CapturedFunction(
        function,
        CudaDevice(device.index or 0),
        sized=[place for place, value in enumerate(inputs) if _is_sized(value)],
        written=_written(gm),
        visible=visible_results(kind),
        tell=tell,
    )

    def call(args: list[Any]) -> Any:
        return wrapped(args)

    call._boxed_call = True  # type: ignore[attr-defined]  # how AOTAutograd tells
    return call


def is_on_a_device_that_captures(gm: torch.fx.GraphModule) -> bool:
    """Whether something of a graph is on a device of which launches can be captured."""
    return any(map(_can_capture, _devices(gm)))


def _can_capture(device: torch.device) -> bool:
    return device.type in TRAITS and TRAITS[device.type].captures


def _devices(gm: torch.fx.GraphModule) -> set[torch.device]:
    return {value.device for node in gm.graph.nodes for value in tensors_of(node)}


def _obstacle(gm: torch.fx.GraphModule, devices: set[torch.device]) -> str:
    """Why a graph cannot be captured, as far as its text tells; empty when nothing is in the way."""
    for node in gm.graph.nodes:
        for value in tensors_of(node):
            if not _can_capture(value.device):
                what = "its input" if node.op == "placeholder" else "the result of"
                return f"{what} {_name(node)} is on the {value.device.type.upper()}"
        if reason := _unsafe(node):
            return reason
    if len(devices) > 1:
        return f"it runs on several devices: {', '.join(sorted(map(str, devices)))}"
    return ""


def _obstacle_of(node: torch.fx.Node, device: torch.device) -> str:
    """Why a call cannot be captured with others on a device; empty when nothing is in the way."""
    for one in (node, *node.all_input_nodes):
        for value in tensors_of(one):
            if value.device != device:
                return f"{_name(one)} is on the {value.device}"
    return _unsafe(node)


def _unsafe(node: torch.fx.Node) -> str:
    if isinstance(node.target, torch._ops.OpOverload):
        for tag in ("dynamic_output_shape", "data_dependent_output", "cudagraph_unsafe"):
            # `index` is said to have dynamic shapes: it has where a mask of bools is among its indices.
            is_index = node.target is torch.ops.aten.index.Tensor
            known = is_index and not any(map(free_unbacked_symbols, tensors_of(node)))
            if not known and getattr(torch.Tag, tag, None) in node.target.tags:
                return f"{_name(node)} is one of the operators that cannot be captured ({tag})"
    return ""


def _name(node: torch.fx.Node) -> str:
    line = line_of(node)
    return f"{node.target}" + (f" ({line[0]}:{line[1]})" if line else "")


def _is_sized(value: Any) -> bool:
    """Whether an input's sizes or strides are known only at the call."""
    return isinstance(value, torch.Tensor) and not all(type(n) is int for n in (*value.size(), *value.stride()))


def _written(gm: torch.fx.GraphModule) -> list[int]:
    """The inputs that the graph writes to."""
    places = {node: place for place, node in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}
    found: set[int] = set()
    for node in gm.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        for argument, declared in zip(node.args, node.target._schema.arguments, strict=False):
            if declared.is_write and isinstance(argument, torch.fx.Node) and argument in places:
                found.add(places[argument])
    return sorted(found)
