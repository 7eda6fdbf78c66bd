"""A run of launches that is being gathered, and the addresses that its launches are given."""

from __future__ import annotations

from dataclasses import field

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import is_tensor, storage_size, tensor_type_of
from cuesta.targets.cpu.emit_types import byte_width

LARGE = 4 << 20
"""Bytes of a tensor that is worth a native call more, if it is gone earlier."""


@struct
class Address:
    """`base` is the text of an address, `offset` bytes after which a buffer begins; whether that is aligned."""

    base: str
    offset: int = 0
    aligned: bool = False

    def __str__(self) -> str:
        return f"{self.base} + {self.offset}" if self.offset else self.base


@struct(frozen=False)
class PendingRun:
    """Launches that are to be one run."""

    device: str = ""
    asynchronous: bool = False
    launches: list[tuple[str, list[Address]]] = field(default_factory=list[tuple[str, list[Address]]])
    ops: set[Operation] = field(default_factory=set[Operation])
    locations: list[LocationAttr] = field(default_factory=list[LocationAttr])
    frees: list[str] = field(default_factory=list[str])
    frees_large: bool = False
    """Whether one of those is large."""
    parameters: set[str] = field(default_factory=set[str])
    """What the call passes on: addresses and symbols."""


def is_large(buffer: SSAValue) -> bool:
    """Whether it is a tensor that is known to have `LARGE` bytes or more."""
    elements = storage_size(buffer.type) if is_tensor(buffer) else 0
    return isinstance(elements, int) and elements * byte_width(tensor_type_of(buffer).element_type) >= LARGE


__all__ = ["LARGE", "Address", "PendingRun", "is_large"]
