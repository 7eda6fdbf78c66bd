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

_Key: TypeAlias = "tuple[tuple[weakref.ref[torch.Tensor], int, int, torch.Tensor], ...]"
"""For each tensor itself, its address, how often it was changed, and an alias, with which the memory lives on: no other
memory comes to lie at the address."""
_Buffers: TypeAlias = "tuple[torch.Tensor, ...]"


class Kept:
    """The buffers that a launch wrote last, and the tensors of which it computed them.

    Threads may both find nothing and both compute; what is here is whole, as one assignment puts it here.
    """

    __slots__ = ("_entry",)

    def __init__(self) -> None:
        self._entry: tuple[_Key, _Buffers] | None = None

    def look(self, *sources: torch.Tensor) -> tuple[_Key | None, _Buffers | None]:
        """The buffers, if they are of these tensors as they are now; else the key to keep others by. Both are None for
        a tensor that does not count its changes (`torch.inference_mode`): what is computed of it is not kept.
        """
        entry = self._entry
        if entry is not None:
            for source, (tensor, address, changes, _) in zip(sources, entry[0], strict=True):
                # Another tensor may be one that does not count.
                if tensor() is not source or source.data_ptr() != address or source._version != changes:
                    break
            else:
                return None, entry[1]
        if any(source.is_inference() for source in sources):
            return None, None
        return tuple((weakref.ref(one), one.data_ptr(), one._version, one.detach()) for one in sources), None

    def keep(self, key: _Key | None, buffers: _Buffers) -> _Buffers:
        """Keeps the buffers, if there is a key, and gives them back."""
        if key is not None:
            self._entry = key, buffers
        return buffers


__all__ = ["Kept"]
