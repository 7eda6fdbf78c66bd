"""What the cache holds of a compiled graph, as bytes: a line that checks the rest, a line of JSON, text, machine code.

    cuesta graph 6
    <SHA-256 of all that follows, in hexadecimal>
    {"key": …, "overloads": …, …}
    def call(args): …
    <object code> <machine code of each device kernel> <each library>

A program is what `targets/program.py` says. What the graph at hand knows better than the one that was compiled first is
left open: as numbers of its nodes the lines of the model, which error messages name, and the tensors it holds; and
which CUDA devices it is for.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, field, replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from cuesta.dialects.core.structs import struct
from cuesta.record import Strides
from cuesta.targets.program import (
    BoundSite,
    DeviceKernel,
    DeviceRun,
    KernelText,
    Label,
    MachineCode,
    NativeFunction,
    Program,
    SharedLibrary,
)

if TYPE_CHECKING:
    import torch

_MAGIC = b"cuesta graph 6\n"
_DIGEST_LENGTH = 64


class DamagedEntryError(Exception):
    """The bytes are no entry for this key; the message says what is wrong with them."""


@struct
class Entry:
    """A compiled graph, and how it goes with a graph of the same key."""

    program: Program
    site_nodes: tuple[tuple[int, ...], ...]
    """For each of the program's sites, the nodes whose lines it names."""
    constants: tuple[int, ...]
    """The nodes of the tensors that the graph holds as attributes, in the order of the program's last arguments."""
    aten_ops: int = 0
    kernels: int = 0
    library_calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter[str])
    result_strides: Sequence[Strides] = ()
    devices: tuple[int, ...] = ()
    """The CUDA devices that the program names, in the order in which the key counts them."""
    label_nodes: tuple[tuple[int, ...], ...] = ()
    """As `site_nodes`, for each of the program's labels."""

    @classmethod
    def of(cls, program: Program, gm: torch.fx.GraphModule, constants: Sequence[str], **facts: Any) -> Entry:
        """The entry of a program that was just made of a graph; `constants` are names of attributes of its."""
        lines: dict[str, list[int]] = {}
        holders: dict[str, int] = {}
        for number, (node, path, _) in enumerate(_all_nodes(gm)):
            lines.setdefault(_line_of(node), []).append(number)
            if node.op == "get_attr":
                holders.setdefault(f"{path}{node.target}", number)
        sites = [
            [number for line in site.location.split(", ") if line for number in lines.get(line, ())]
            for site in program.sites
        ]
        labels = tuple(
            tuple(number for line in label.lines for number in lines.get(line, ())) for label in program.labels
        )
        held = tuple(holders[name] for name in constants)
        return cls(program, tuple(map(tuple, sites)), held, label_nodes=labels, **facts)

    def program_for(self, gm: torch.fx.GraphModule) -> Program:
        """The program with the lines of this graph's model in its error messages and for profilers."""
        if not any(self.site_nodes) and not any(self.label_nodes):
            return self.program
        nodes = [node for node, _, _ in _all_nodes(gm)]

        @cache
        def line(number: int) -> str:
            return _line_of(nodes[number])

        def lines(numbers: Sequence[int]) -> Iterable[str]:
            return dict.fromkeys(filter(None, map(line, numbers)))

        sites = [
            replace(site, location=", ".join(lines(numbers)))
            for site, numbers in zip(self.program.sites, self.site_nodes, strict=True)
        ]
        labels = [
            replace(label, lines=tuple(lines(numbers)))
            for label, numbers in zip(self.program.labels, self.label_nodes, strict=True)
        ]
        return replace(self.program, sites=tuple(sites), labels=tuple(labels))

    def constants_for(self, gm: torch.fx.GraphModule) -> list[Any]:
        """The tensors that this graph holds, as the program wants them."""
        if not self.constants:
            return []
        nodes = list(_all_nodes(gm))
        return [_held(nodes[number][2], str(nodes[number][0].target)) for number in self.constants]


def _all_nodes(gm: torch.fx.GraphModule, path: str = "") -> Iterator[tuple[torch.fx.Node, str, torch.fx.GraphModule]]:
    """The nodes of a graph, those of graphs that it holds behind the node that names them: each with its graph, and the
    way there from the first (`true_graph_0.`).
    """
    for node in gm.graph.nodes:
        yield node, path, gm
        if node.op == "get_attr":
            held = _held(gm, str(node.target))
            if hasattr(held, "graph"):
                yield from _all_nodes(held, f"{path}{node.target}.")


def _held(gm: torch.fx.GraphModule, name: str) -> Any:
    value: Any = gm
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _line_of(node: torch.fx.Node) -> str:
    from cuesta.lowering.capture.stack_traces import line_of  # which imports torch

    line = line_of(node)
    return "" if line is None else f"{line[0]}:{line[1]}"


def encode(key: str, entry: Entry) -> bytes:
    """The bytes of an entry."""
    program = entry.program
    source = program.source.encode()
    head = {
        "key": key,
        "source_bytes": len(source),
        "object_bytes": None if program.object_code is None else len(program.object_code),
        "overloads": dict(program.overloads),
        "functions": [asdict(function) for function in program.functions],
        "device_kernels": [_device_kernel_head(one) for one in program.device_kernels],
        "device_runs": [asdict(run) for run in program.device_runs],
        "libraries": [
            {"bytes": len(one.content), "functions": [asdict(function) for function in one.functions]}
            for one in program.libraries
        ],
        "sites": [asdict(site) for site in program.sites],
        "site_nodes": entry.site_nodes,
        "labels": [asdict(label) for label in program.labels],
        "label_nodes": entry.label_nodes,
        "constants": entry.constants,
        "aten_ops": entry.aten_ops,
        "kernels": entry.kernels,
        "library_calls": entry.library_calls,
        "fallbacks": dict(entry.fallbacks),
        "result_strides": entry.result_strides,
        "devices": entry.devices,
    }
    machine_code = [
        program.object_code or b"",
        *(one.code.binary for one in program.device_kernels),
        *(one.content for one in program.libraries),
    ]
    body = b"\n".join([json.dumps(head).encode(), source + b"".join(machine_code)])
    return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _device_kernel_head(one: DeviceKernel) -> dict[str, Any]:
    """All of a device kernel that is text, and the length of what is not."""
    head = asdict(one)
    head["code"]["binary"] = len(one.code.binary)
    return head


def decode(key: str, data: bytes) -> Entry:
    """The entry that the bytes are, if they are one for this key.

    Errors: DamagedEntryError.
    """
    if not data.startswith(_MAGIC):
        raise DamagedEntryError("it does not begin as an entry does")
    start = len(_MAGIC) + _DIGEST_LENGTH + 1
    digest, body = data[len(_MAGIC) : start], data[start:]
    if digest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise DamagedEntryError("its checksum is wrong")
    try:
        return _decode_body(key, body)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedEntryError(f"its head does not read: {error!r}") from error


def _decode_body(key: str, body: bytes) -> Entry:
    line, _, rest = body.partition(b"\n")
    head = json.loads(line)
    if head["key"] != key:
        raise DamagedEntryError(f"it belongs to another key, {head['key']}")
    object_bytes, device_kernels = head["object_bytes"], head["device_kernels"]
    libraries = head["libraries"]
    lengths = [head["source_bytes"], object_bytes or 0, *(one["code"]["binary"] for one in device_kernels)]
    lengths += [one["bytes"] for one in libraries]
    if min(lengths) < 0 or len(rest) != sum(lengths):
        raise DamagedEntryError("its parts are not as long as it says")
    ends = list(accumulate(lengths))
    source, object_code, *binary = [rest[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    program = Program(
        source=source.decode(),
        overloads={str(name): str(overload) for name, overload in head["overloads"].items()},
        functions=_functions(head["functions"]),
        sites=tuple(BoundSite(**site) for site in head["sites"]),
        object_code=None if object_bytes is None else object_code,
        device_kernels=tuple(map(_device_kernel, device_kernels, binary[: len(device_kernels)])),
        device_runs=tuple(_device_run(run, len(device_kernels)) for run in head["device_runs"]),
        libraries=tuple(
            SharedLibrary(content, _functions(one["functions"]))
            for one, content in zip(libraries, binary[len(device_kernels) :], strict=True)
        ),
        labels=tuple(map(_label, head["labels"])),
    )
    return Entry(
        program,
        site_nodes=tuple(tuple(map(int, numbers)) for numbers in head["site_nodes"]),
        label_nodes=tuple(tuple(map(int, numbers)) for numbers in head["label_nodes"]),
        constants=tuple(map(int, head["constants"])),
        aten_ops=int(head["aten_ops"]),
        kernels=int(head["kernels"]),
        library_calls=int(head["library_calls"]),
        fallbacks=Counter({str(name): int(count) for name, count in head["fallbacks"].items()}),
        result_strides=tuple(None if one is None else tuple(map(int, one)) for one in head["result_strides"]),
        devices=tuple(map(int, head["devices"])),
    )


def _functions(head: list[dict[str, Any]]) -> tuple[NativeFunction, ...]:
    return tuple(NativeFunction(str(one["name"]), int(one["arguments"]), one.get("entry")) for one in head)


def _label(head: dict[str, Any]) -> Label:
    return Label(str(head["function"]), tuple(map(str, head["kernels"])), tuple(map(str, head["lines"])))


def _device_kernel(head: dict[str, Any], binary: bytes) -> DeviceKernel:
    text, code = dict(head["text"]), dict(head["code"])
    text["signature"] = tuple((str(name), str(kind)) for name, kind in text["signature"])
    code["binary"] = binary
    return DeviceKernel(int(head["device"]), KernelText(**text), MachineCode(**code))


def _device_run(head: dict[str, Any], kernels: int) -> DeviceRun:
    launched = tuple(map(int, head["kernels"]))
    if not all(0 <= position < kernels for position in launched):
        raise DamagedEntryError("it launches a kernel that it does not have")
    return DeviceRun(str(head["name"]), int(head["device"]), int(head["arguments"]), launched, head.get("entry"))
