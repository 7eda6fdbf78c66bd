"""`cuesta.package`: from a function to a file. torch.export captures it, and we compile what it captured."""

from __future__ import annotations

import hashlib
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind
from torch.utils import _pytree as pytree

from cuesta.dialects.core.structs import struct
from cuesta.options import Options
from cuesta.packages import container
from cuesta.packages.arrangement import misfit
from cuesta.packages.capture import capture
from cuesta.packages.fakes import as_given
from cuesta.packages.graph import Graph, PackageError
from cuesta.packages.machines import machine_of
from cuesta.packages.passes import PassWriter
from cuesta.packages.sizes import SizeExpressions
from cuesta.packages.unseen import Seeing
from cuesta.packages.weights import Weight, digest_of, encoded, read_weights

Inputs = tuple[Any, ...]
_WEIGHTS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}


def package(
    function: Callable[..., Any] | ExportedProgram,
    inputs: Inputs | Sequence[Inputs] | None,
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    training: bool = False,
    devices: Sequence[str] = (),
    weights: str | os.PathLike[str] | None = None,
    texts: bool = False,
    options: Mapping[str, Any] | None = None,
) -> str:
    """Compiles a function or a module for inputs like these, and writes what it became to a file, which
    `cuesta.load_package` reads; gives the file's SHA-256.

    `inputs` are a tuple of positional arguments, or a list of such tuples: a program each, of which a call takes the
    first that is for its inputs. `kwargs` and `dynamic_shapes` are as for `torch.export.export`, the same for all. Of a
    program that torch.export made, inputs are known: None. With `training` gradients flow through it.
    `devices` has the module and its inputs moved to each; otherwise they stay where they are. The weights are written
    beside the file, with the ending `.safetensors`, or they are in such a file already: `weights`. With `texts` the
    text of every level goes into the file. `options` are those of `torch.compile`.

    Errors: PackageError for what cannot be packaged, OptionError, what torch.export and the compiler raise. Nothing is
    left behind then.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise PackageError(f"{target} cannot be written: there is no folder {target.parent}")
    parsed = Options.parse(None, options)
    if parsed.captures or parsed.target != "device":
        raise PackageError("packages have no CUDA graphs, and machine code: not the options 'cuda_graphs' and 'target'")
    if parsed.frozen:
        raise PackageError("a package does not know who changes its weights: not the option 'frozen'")
    programs = [
        _exported(function, one, kwargs, dynamic_shapes, device, training)
        for device in devices or (None,)
        for one in _each_inputs(function, inputs)
    ]
    building = _Building(parsed, training=training, texts=texts)
    for one in programs:
        building.add(one)
    return building.write(target, None if weights is None else Path(weights))


def _each_inputs(function: object, inputs: Any) -> list[Inputs | None]:
    if isinstance(function, ExportedProgram):
        if inputs is not None:
            raise PackageError("the inputs of an exported program are known: say None")
        return [None]
    every: list[Any] = list(inputs) if isinstance(inputs, list) else [inputs]
    if not every or not all(isinstance(one, tuple) for one in every):
        raise PackageError("inputs are a tuple of positional arguments, or a list of such tuples")
    return every


def _exported(
    function: Any,
    inputs: Inputs | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    device: str | None,
    training: bool,
) -> ExportedProgram:
    if isinstance(function, ExportedProgram):
        if device is not None or kwargs is not None or dynamic_shapes is not None:
            raise PackageError("an exported program says itself what it takes: no kwargs, dynamic_shapes or devices")
        return function
    module = function if isinstance(function, torch.nn.Module) else _module_of(function)
    given: Any = (inputs, dict(kwargs or {}))
    if (reason := misfit(module.forward, *given)) is not None:
        raise PackageError(f"{_named(function)} is not called so: {reason}")
    if device is not None:
        import copy

        module = copy.deepcopy(module).to(device)
        given = pytree.tree_map_only(
            torch.Tensor, lambda one: one.detach().to(device).requires_grad_(one.requires_grad), given
        )
    with torch.enable_grad() if training else torch.no_grad(), Seeing(training=training):
        return torch.export.export(module, given[0], given[1] or None, dynamic_shapes=dynamic_shapes)


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _module_of(function: Callable[..., Any]) -> torch.nn.Module:
    """A module that calls a function; torch.export reads the names of arguments off its signature."""
    if not callable(function):
        raise PackageError(f"a {type(function).__name__} can not be packaged: give a function or a module")
    try:
        inspect.signature(function)
        forward = function
    except ValueError:  # built in: nobody knows

        def forward(*args: Any) -> Any:
            return function(*args)

    return type("Function", (torch.nn.Module,), {"forward": staticmethod(forward)})()


@struct(eq=False)
class _Flat:
    """An exported program as a graph whose tensors are all inputs."""

    gm: torch.fx.GraphModule
    inputs: list[Any]
    weights: list[tuple[str, str, torch.Tensor, bool]]
    """Names, kinds, tensors, and whether they are saved with the model."""
    leaves: list[tuple[str, Any]]
    """What a caller gives, by name: fake tensors, and values."""
    picked: list[int]
    """The leaves that the graph takes."""
    sizes: SizeExpressions


def _flattened(program: ExportedProgram) -> _Flat:
    """Errors: PackageError."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(program.graph_module.graph, {}))
    gm = torch.fx.GraphModule(program.graph_module, graph)
    state = {**program.constants, **program.state_dict}
    weights: list[tuple[str, str, torch.Tensor, bool]] = []
    leaves: list[tuple[str, Any]] = []
    fakes: list[Any] = []
    picked: list[int] = []
    nodes = list(gm.graph.find_nodes(op="placeholder"))
    examples = iter(pytree.tree_leaves(program.example_inputs))
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        value = node.meta.get("val")
        source: Any = None
        if spec.kind in _WEIGHTS:
            name = str(spec.target)
            source = state[name]
            _check_constant(name, source)
            weights.append((name, _WEIGHTS[spec.kind], state[name], spec.persistent is not False))
        elif spec.kind is InputKind.USER_INPUT:
            source = next(examples, None)
            leaves.append((_name_of(spec), value))
            if not isinstance(value, torch.Tensor):
                _replace_value(gm, node, value)
                continue
            picked.append(len(leaves) - 1)
        else:
            raise PackageError(f"a program that takes {spec.arg} ({spec.kind.name.lower()}) can not be packaged")
        fakes.append(as_given(value, source))
    for node in list(gm.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            gm.graph.erase_node(node)  # what it checks, the signature does
    sizes = SizeExpressions(fakes, [one for _, one in leaves], program.range_constraints)
    _take_symbols(gm, sizes)
    gm.recompile()
    return _Flat(gm, [*sizes.numbers, *fakes], weights, leaves, picked, sizes)


def _check_constant(name: str, value: Any) -> None:
    """Errors: PackageError for what is a tensor only while a program is traced."""
    transforms: Any = getattr(torch._C, "_functorch")  # noqa: B009  # pyright: ignore[reportPrivateUsage]
    if transforms.is_functorch_wrapped_tensor(value) or isinstance(value, FakeTensor):
        raise PackageError(f"a program of which torch.export takes what it computes for a constant ({name})")


def _name_of(spec: InputSpec) -> str:
    return str(spec.arg.name)


def _replace_value(gm: torch.fx.GraphModule, node: torch.fx.Node, value: Any) -> None:
    """A number that the program was captured for, or a symbol, is no input of its own."""
    if isinstance(value, torch.SymInt):
        raise PackageError(f"{node.name} is a number that may change: give the size of a tensor instead")
    for user in list(node.users):
        user.args = torch.fx.node.map_arg(user.args, lambda one: value if one is node else one)
        user.kwargs = torch.fx.node.map_arg(user.kwargs, lambda one: value if one is node else one)
    gm.graph.erase_node(node)


def _take_symbols(gm: torch.fx.GraphModule, sizes: SizeExpressions) -> None:
    """Puts the numbers of which sizes are made before all inputs, as Dynamo does."""
    first = next(iter(gm.graph.nodes))
    with gm.graph.inserting_before(first):
        for name, number in zip(sizes.names, sizes.numbers, strict=True):
            gm.graph.placeholder(name).meta["val"] = number


class _Building:
    """A package on its way."""

    def __init__(self, options: Options, *, training: bool, texts: bool) -> None:
        self.options, self.training, self.texts = options, training, texts
        self.variants: list[dict[str, Any]] = []
        self.members: dict[str, bytes] = {}
        self.passes = PassWriter(self.members)
        self.weights: dict[str, Weight] = {}
        self.tensors: dict[str, torch.Tensor] = {}

    def add(self, program: ExportedProgram) -> None:
        """Compiles one program. Errors: PackageError; what the compiler raises."""
        flat = _flattened(program)
        device = _device_of(flat)
        self._add_weights(flat)
        with torch.enable_grad() if self.training else torch.no_grad():
            graph = self._compiled(flat)
        plan = graph.plan
        before = len(flat.sizes.numbers) + len(flat.weights)
        written = {flat.picked[place - before] for place in plan.written if place >= before}
        wanting = {flat.picked[k] for k, one in enumerate(flat.inputs[before:]) if self.training and one.requires_grad}
        signature = flat.sizes.signature([name for name, _ in flat.leaves], written, wanting)
        call_spec = program.call_spec
        if len(plan.results) != sum(one.kind is OutputKind.USER_OUTPUT for one in program.graph_signature.output_specs):
            raise PackageError("a program of which torch.export says other results than it has")
        number = len(self.variants)
        self.variants.append(
            {
                "device": device,
                "signature": asdict(signature),
                "taken": pytree.treespec_dumps(call_spec.in_spec),
                "given": pytree.treespec_dumps(call_spec.out_spec),
                "weights": [name for name, *_ in flat.weights],
                "inputs": flat.picked,
                "plan": asdict(plan),
                "forward": self.passes.add(number, "forward", graph.forward),
                "backward": None if graph.backward is None else self.passes.add(number, "backward", graph.backward),
            }
        )

    def _compiled(self, flat: _Flat) -> Graph:
        if not self.texts:
            return capture(flat.gm, flat.inputs, self.options)
        from dataclasses import replace

        with tempfile.TemporaryDirectory(prefix="cuesta-") as folder:
            graph = capture(flat.gm, flat.inputs, replace(self.options, dump=folder))
            root = Path(folder)
            for file in sorted(root.rglob("*")):
                if file.is_file():
                    self.members[f"texts/{len(self.variants)}/{file.relative_to(root)}"] = file.read_bytes()
        return graph

    def _add_weights(self, flat: _Flat) -> None:
        sources: dict[Any, str] = {}
        for name, kind, tensor, persistent in flat.weights:
            place = (tensor.data_ptr(), tensor.untyped_storage()._cdata, tuple(tensor.shape), tuple(tensor.stride()))
            source = sources.setdefault(place if tensor.numel() else name, name)
            weight = Weight(
                name,
                source,
                kind,
                str(tensor.dtype).removeprefix("torch."),
                tuple(tensor.shape),
                tuple(tensor.stride()),
                trained=self.training and tensor.requires_grad,
                persistent=persistent and kind == "buffer",
            )
            if self.weights.setdefault(name, weight) != weight:
                raise PackageError(f"the weight {name} is another for one of the inputs, or devices")
            self.tensors.setdefault(source, tensor)

    def write(self, path: Path, known: Path | None) -> str:
        """Writes the package, and its weights unless they are `known`; gives its digest. Errors: PackageError."""
        needed = list(self.weights.values())
        devices = list(dict.fromkeys(one["device"] for one in self.variants))
        self.members |= self.passes.constants()
        said: dict[str, Any] = {"tensors": [asdict(one) for one in needed], "file": None, "digest": None}
        if known is not None:
            self._check_known(known, needed)
            said |= {"file": os.path.relpath(known, path.parent), "digest": digest_of(known)}
        elif needed:
            place, data = path.with_suffix(".safetensors"), encoded(self.tensors)
            said |= {"file": place.name, "digest": hashlib.sha256(data).hexdigest()}
            container.write_whole(place, data)
        manifest = {
            "training": self.training,
            "machine": machine_of(devices),
            "weights": said,
            "variants": self.variants,
        }
        data = container.packed(manifest, self.members)
        container.write_whole(path, data)
        return hashlib.sha256(data).hexdigest()

    def _check_known(self, path: Path, needed: Sequence[Weight]) -> None:
        """That a file has the weights of the model. Errors: PackageError."""
        found = read_weights(path, needed)
        for name, tensor in self.tensors.items():
            there = found[name]
            if there.dtype != tensor.dtype or not torch.equal(there, tensor.detach().cpu()):
                raise PackageError(f"the weights {path} have another {name} than the model")


def _device_of(flat: _Flat) -> str:
    """The one device, beside the CPU, that a program is for. Errors: PackageError when there are several."""
    every = [one for _, one in flat.leaves] + [tensor for _, _, tensor, _ in flat.weights]
    devices = sorted({str(one.device) for one in every if isinstance(one, torch.Tensor)} - {"cpu"})
    if len(devices) > 1:
        raise PackageError(f"a program on several devices ({', '.join(devices)}) can not be packaged")
    return devices[0] if devices else "cpu"


__all__ = ["package"]
