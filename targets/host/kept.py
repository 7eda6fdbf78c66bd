"""What a launch wrote, kept for later calls: `host.launch kept`. In a wrapper's text:

key, found = kept.look(w)
if found is None:
    buf = empty_cpu(…)
    run_0(w.data_ptr(), buf.data_ptr())
    found = kept.keep(key, (buf,))
buf, = found
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch

_State: TypeAlias = "tuple[weakref.ref[torch.Tensor], int, int]"
"""A tensor itself, its address, and how often it was changed."""
_Key: TypeAlias = "tuple[_State, tuple[_State, ...], tuple[torch.Tensor, ...]]"
"""The states of the first tensor and of the others, and aliases of all, with which their memory lives on: no other
memory comes to lie at an address.
"""
_Buffers: TypeAlias = "tuple[torch.Tensor, ...]"


class Kept:
    """The buffers that launches wrote last, and the tensors of which they computed them.

    Threads may both find nothing and both compute; what is here is whole, as one assignment puts it here.
    """

    __slots__ = ("_entry",)

    def __init__(self) -> None:
        self._entry: tuple[_State, tuple[_State, ...], _Buffers, object] | None = None

    def look(self, first: torch.Tensor, *others: torch.Tensor) -> tuple[_Key | None, _Buffers | None]:
        """The buffers, if they are of these tensors as they are now; else the key to keep others by. Both are None for
        a tensor that does not count its changes (`torch.inference_mode`): what is computed of it is not kept.
        """
        entry = self._entry
        if entry is not None:
            (tensor, address, changes), more, buffers, _ = entry
            # Another tensor than the one that is known may be one that does not count.
            if tensor() is first and first.data_ptr() == address and first._version == changes:
                for source, (tensor, address, changes) in zip(others, more):  # noqa: B905  # half as fast if strict
                    if tensor() is not source or source.data_ptr() != address or source._version != changes:
                        break
                else:
                    return None, buffers
        if first.is_inference() or any(source.is_inference() for source in others):
            return None, None
        aliases = tuple(source.detach() for source in (first, *others))
        return (_state(first), tuple(map(_state, others)), aliases), None

    def keep(self, key: _Key | None, buffers: _Buffers) -> _Buffers:
        """Keeps the buffers, if there is a key, and gives them back."""
        if key is not None:
            first, others, aliases = key
            self._entry = first, others, buffers, aliases
        return buffers


def _state(tensor: torch.Tensor) -> _State:
    return weakref.ref(tensor), tensor.data_ptr(), tensor._version


__all__ = ["Kept"]
