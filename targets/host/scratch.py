"""Small buffers that only one run of launches uses: memory that the run has while it runs, and no tensors.

    buf = empty_cpu((), (), torch.int64)
    run_0(a.data_ptr(), buf.data_ptr())          ->    run_0(a.data_ptr())        with 8 bytes of its own

A tensor for such a buffer takes 0.5 us, which is as much as a small kernel. Which launches are one run is known when
the run is written; until then a buffer that may be scratch memory waits for its memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import host
from cuesta.dialects.layout import storage_size, tensor_type_of
from cuesta.targets.cpu.emit_types import byte_width


class Scratch:
    """The buffers of a function that wait, by the names that the function's text has for them."""

    def __init__(self) -> None:
        self._waiting: dict[str, host.AllocOp] = {}
        self._taken: set[str] = set()
        """Those that were scratch memory of a run."""

    def add(self, name: str, op: host.AllocOp) -> None:
        """One more buffer, for which there is no memory yet."""
        self._waiting[name] = op

    def is_no_tensor(self, name: str, launches: Collection[Operation]) -> bool:
        """Whether a buffer that goes was scratch memory, or never had memory and is not used by these launches either,
        which are to come: then it waits no longer.
        """
        op = self._waiting.get(name)
        if op is None or any(one in launches for one in _launches_of(op.result)):
            return name in self._taken
        del self._waiting[name]
        return True

    def taken(self, launches: Collection[Operation], most: int) -> tuple[Mapping[str, int], Mapping[str, host.AllocOp]]:
        """The bytes of the buffers that these launches alone use, not more than `most` together; and the buffers that
        they use and that need memory of their own. Neither wait any longer.
        """
        scratch: dict[str, int] = {}
        others: dict[str, host.AllocOp] = {}
        for name, op in list(self._waiting.items()):
            used = _launches_of(op.result)
            if not any(one in launches for one in used):
                continue
            del self._waiting[name]
            size = bytes_of(op.result)
            if all(one in launches for one in used) and sum(scratch.values()) + size <= most:
                scratch[name] = size
                self._taken.add(name)
            else:
                others[name] = op
        return scratch, others


def is_small(buffer: SSAValue, most: int) -> bool:
    """Whether a buffer has a known size, of some bytes and at most so many."""
    return isinstance(storage_size(tensor_type_of(buffer)), int) and 0 < bytes_of(buffer) <= most


def bytes_of(buffer: SSAValue) -> int:
    """The bytes of a buffer of a known size."""
    buffer_type = tensor_type_of(buffer)
    return cast("int", storage_size(buffer_type)) * byte_width(buffer_type.element_type)


def _launches_of(buffer: SSAValue) -> list[Operation]:
    """The launches that use a buffer or a part of it."""
    users = [use.operation for use in buffer.uses]
    parts = [user.results[0] for user in users if isinstance(user, host.PlaceOp)]
    launches: list[Operation] = [user for user in users if isinstance(user, host.LaunchOp)]
    return launches + [launch for part in parts for launch in _launches_of(part)]


__all__ = ["Scratch", "bytes_of", "is_small"]
