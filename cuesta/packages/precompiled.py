"""`torch.compile(f, backend="cuesta", fullgraph=True).aot_compile(…)`: what Dynamo saves of a graph is a package.

Around it, in pickles of torch's own, are Dynamo's guards and the code that takes a user's arguments apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.aot_compile_types import SerializableCallable

from cuesta.options import Options
from cuesta.packages.container import Container, packed
from cuesta.packages.graph import Graph, PackageError
from cuesta.packages.machines import check_machine, machine_of
from cuesta.packages.passes import PassReader, PassWriter
from cuesta.packages.running import function_of


class PrecompiledGraph(SerializableCallable):
    """A compiled graph of Dynamo's, which takes and gives what the graph does."""

    def __init__(self, graph: Graph, device: str) -> None:
        self.graph = graph
        self.device = device
        self.function = function_of(graph)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The graph's results."""
        assert not kwargs, "Dynamo's graphs take no keyword arguments"
        return tuple(self.function(list(args)))

    @classmethod
    def serialize_compile_artifacts(cls, fn: PrecompiledGraph) -> bytes:
        """The graph as a package without weights: they are inputs."""
        members: dict[str, bytes] = {}
        passes, graph = PassWriter(members), fn.graph
        head = {
            "plan": asdict(graph.plan),
            "forward": passes.add(0, "forward", graph.forward),
            "backward": None if graph.backward is None else passes.add(0, "backward", graph.backward),
        }
        members |= passes.constants()
        return packed({"machine": machine_of([fn.device]), "device": fn.device, "graph": head}, members)

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> PrecompiledGraph:
        """The graph again. Errors: PackageError."""
        container = Container(data, Path("a graph of aot_compile"))
        try:
            device = str(container.manifest["device"])
            check_machine(container.manifest["machine"], device, container.path)
            head: Mapping[str, Any] = container.manifest["graph"]
            return cls(PassReader(container).graph(head, device), device)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise PackageError(f"{container.path} is damaged: {error!r}") from error


def precompiled(gm: torch.fx.GraphModule, inputs: Sequence[Any], options: Options) -> PrecompiledGraph:
    """A graph of Dynamo's, compiled so that it can be saved. Errors: PackageError; what the compiler raises."""
    from cuesta.packages.capture import capture
    from cuesta.values_of_inputs import wrapped_numbers

    if wrapped_numbers(gm):
        raise PackageError("a graph that takes numbers of Python's random module cannot be saved")
    devices = sorted({str(one.device) for one in inputs if isinstance(one, torch.Tensor)} - {"cpu"})
    return PrecompiledGraph(capture(gm, inputs, options), devices[0] if devices else "cpu")
