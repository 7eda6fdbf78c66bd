"""Inputs as files: what a graph was called with, kept beside its dump, and read again.

    inputs/inputs.json     one entry per argument: dtype, sizes, strides, where in which memory, device; numbers as such
    inputs/memory_0.npy    the bytes of one piece of memory, as NumPy writes them; tensors that shared it share it again

Nothing in it is a pickle, and nothing that is read from it runs. A folder is there whole, or not at all.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from cuesta.programs.inputs_of import InputsError

FOLDER = "inputs"
INDEX = "inputs.json"
_FORMAT = 1


@dataclass(frozen=True)
class KeptInputs:
    """The inputs of one call, on the CPU."""

    values: list[Any]
    devices: list[str]
    """Where each of them was."""
    weights: frozenset[int]
    """The positions of those that are parameters, buffers or constants of a model."""

    def __len__(self) -> int:
        return len(self.values)


def write_inputs(values: Sequence[Any], folder: str | os.PathLike[str], *, weights: Collection[int] = ()) -> Path:
    """Keeps the inputs of a call in a folder that there is not yet; `weights` are the positions of a model's own.

    Only as much of a piece of memory is kept as some tensor reaches. An object that is neither a tensor nor a number
    is kept by its type's name alone: reading says that it is missing.
    Errors: InputsError when the folder is there already, OSError. Nothing is left behind then.
    """
    target = Path(folder)
    if target.exists():
        raise InputsError(f"{target} is there already")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        temporary.mkdir(parents=True)
        memories = _Memories()
        entries = [{**memories.entry(value), "weight": at in weights} for at, value in enumerate(values)]
        memories.write(temporary)
        index = {"cuesta_inputs": _FORMAT, "arguments": entries}
        (temporary / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


class _Memories:
    """The pieces of memory of some tensors, and how much of each they reach."""

    def __init__(self) -> None:
        self.storages: list[torch.UntypedStorage] = []
        self.numbers: dict[int, int] = {}
        self.reached: list[int] = []

    def entry(self, value: Any) -> dict[str, Any]:
        """What the index says of a value."""
        if isinstance(value, torch.Tensor):
            if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
                kind = f"{type(value).__name__} ({value.layout})"
                return {"kind": "object", "type": kind}
            return self._tensor(value)
        if value is None:
            return {"kind": "none"}
        if isinstance(value, bool):
            return {"kind": "bool", "value": value}
        if isinstance(value, int):
            return {"kind": "int", "value": str(value)}
        if isinstance(value, float):
            return {"kind": "float", "value": value.hex()}
        return {"kind": "object", "type": type(value).__name__}

    def _tensor(self, value: torch.Tensor) -> dict[str, Any]:
        storage = value.untyped_storage()
        number = self.numbers.get(storage._cdata)
        if number is None:
            number = self.numbers[storage._cdata] = len(self.storages)
            self.storages.append(storage)
            self.reached.append(0)
        size = value.element_size()
        last = int(value.storage_offset()) + _extent(value.shape, value.stride())
        self.reached[number] = max(self.reached[number], last * size)
        entry: dict[str, Any] = {
            "kind": "tensor",
            "dtype": str(value.dtype).removeprefix("torch."),
            "sizes": list(value.shape),
            "strides": list(value.stride()),
            "offset": value.storage_offset(),
            "memory": number,
            "device": str(value.device),
        }
        bits = {"negative": value.is_neg(), "conjugate": value.is_conj()}
        return entry | {name: True for name, there in bits.items() if there}

    def write(self, folder: Path) -> None:
        for number, (storage, reached) in enumerate(zip(self.storages, self.reached, strict=True)):
            whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            numpy.save(folder / f"memory_{number}.npy", whole[:reached].cpu().numpy(), allow_pickle=False)


def weights_among(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> frozenset[int]:
    """Where in memory the tensors begin that Dynamo took from a module, or that are parameters, among the inputs of a
    graph of Dynamo's.
    """
    found: set[int] = set()
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=False):
        own = isinstance(value, torch.nn.Parameter) or "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})
        if own and isinstance(value, torch.Tensor) and value.layout is torch.strided:
            found.add(value.untyped_storage().data_ptr())
    return frozenset(found)


def keep_first(
    function: Callable[[list[Any]], Any], dump: Path, weights: Collection[int], constants: int
) -> Callable[[list[Any]], Any]:
    """The function, whose first call keeps its arguments in the folder of a dump, before anything is written to them.

    Weights are what begins in memory at one of the addresses `weights`, and the last arguments, which are `constants`
    of the graph. Inputs that cannot be kept are a warning.
    """
    pending = True

    def call(args: list[Any]) -> Any:
        nonlocal pending
        if pending:
            pending = False
            own = {at for at, value in enumerate(args) if address_of(value) in weights}
            own |= set(range(len(args) - constants, len(args)))
            try:
                write_inputs(args, dump / FOLDER, weights=own)
            except (OSError, InputsError) as error:
                warnings.warn(f"cuesta: the inputs are not kept: {error}", stacklevel=2)
        return function(args)

    return call


def address_of(value: Any) -> int | None:
    """Where in memory the storage of a tensor begins."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage().data_ptr()


def _extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory a tensor spans."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def read_inputs(path: str | os.PathLike[str]) -> KeptInputs:
    """The inputs that a folder holds, or the folder of a dump in which there is one, or that its index names. Tensors
    lie in memory of their own, on the CPU; those that shared memory share it.

    Errors: InputsError, which names the file and the argument, for what is missing, damaged, or no such folder.
    """
    index = _index_of(Path(path))
    try:
        said = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputsError(f"{index} cannot be read: {error}") from error
    if (
        not isinstance(said, dict)
        or said.get("cuesta_inputs") != _FORMAT
        or not isinstance(said.get("arguments"), list)
    ):
        raise InputsError(f"{index} is no index of inputs that this version of Cuesta reads (format {_FORMAT})")
    reader = _Reader(index)
    values = [reader.value(at, entry) for at, entry in enumerate(said["arguments"])]
    return KeptInputs(
        values,
        [str(entry.get("device", "cpu")) for entry in said["arguments"]],
        frozenset(at for at, entry in enumerate(said["arguments"]) if entry.get("weight") is True),
    )


def _index_of(path: Path) -> Path:
    places = [path / INDEX, path / FOLDER / INDEX] if path.is_dir() else [path]
    found = next((one for one in places if one.is_file()), None)
    if found is None or found.suffix != ".json":
        raise InputsError(
            f"{path} holds no inputs: they are a folder with an {INDEX}, as options={{'dump': …, 'dump_inputs': True}} "
            "leaves it"
        )
    return found


class _Reader:
    """Reads values, each piece of memory once."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self.memories: dict[int, torch.Tensor] = {}

    def value(self, at: int, entry: Any) -> Any:
        where = f"{self.index}: argument {at}"
        try:
            match entry["kind"]:
                case "tensor":
                    return self._tensor(entry, where)
                case "none":
                    return None
                case "bool":
                    return bool(entry["value"])
                case "int":
                    return int(entry["value"])
                case "float":
                    return float.fromhex(entry["value"])
                case "object":
                    raise InputsError(f"{where} was a {entry['type']}, which no file holds")
                case other:
                    raise InputsError(f"{where} is of an unknown kind, {other!r}")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, InputsError):
                raise
            raise InputsError(f"{where} is damaged: {type(error).__name__}: {error}") from error

    def _tensor(self, entry: dict[str, Any], where: str) -> torch.Tensor:
        dtype = getattr(torch, entry["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            raise InputsError(f"{where}: torch has no dtype {entry['dtype']!r}")
        sizes, strides, offset = _numbers(entry["sizes"]), _numbers(entry["strides"]), _numbers([entry["offset"]])[0]
        if len(sizes) != len(strides):
            raise InputsError(f"{where}: {len(sizes)} sizes, but {len(strides)} strides")
        memory = self._memory(_numbers([entry["memory"]])[0], where)
        needed = (offset + _extent(sizes, strides)) * dtype.itemsize if math.prod(sizes) else 0
        if needed > memory.numel():
            raise InputsError(f"{where} needs {needed} bytes of its memory, which has {memory.numel()}")
        elements = memory[: memory.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        tensor = elements.as_strided(sizes, strides, offset if needed else 0)
        if entry.get("conjugate") is True:
            tensor = torch.ops.aten._conj.default(tensor)
        if entry.get("negative") is True:
            tensor = torch.ops.aten._neg_view.default(tensor)
        return tensor

    def _memory(self, number: int, where: str) -> torch.Tensor:
        if number not in self.memories:
            path = self.index.with_name(f"memory_{number}.npy")
            try:
                read = numpy.load(path, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise InputsError(f"{where}: {path} cannot be read: {error}") from error
            if not isinstance(read, numpy.ndarray) or read.dtype != numpy.uint8 or read.ndim != 1:
                raise InputsError(f"{where}: {path} holds no row of bytes")
            self.memories[number] = _aligned(read)
        return self.memories[number]


def _aligned(read: numpy.ndarray[Any, Any]) -> torch.Tensor:
    """The bytes in memory that torch allocated, which is aligned for machine code."""
    memory = torch.empty(read.size, dtype=torch.uint8)
    memory.numpy()[:] = read
    return memory


def _numbers(given: Any) -> list[int]:
    """Errors: ValueError unless it is a list of integers that are not negative."""
    if not isinstance(given, list) or any(type(one) is not int or one < 0 for one in given):
        raise ValueError(f"{given!r} are no sizes")
    return given


__all__ = [
    "FOLDER",
    "InputsError",
    "KeptInputs",
    "address_of",
    "keep_first",
    "read_inputs",
    "weights_among",
    "write_inputs",
]
