"""How much memory this process uses: resident pages, their high-water mark, tensors that stay alive. Linux only."""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Sequence
from pathlib import Path

import torch

ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""With these, a freed tensor's pages leave the process at once, so that the resident set says what is in use now, and
does not depend on what was in use before. All sides are measured with them."""

_STATUS = Path("/proc/self/status")


def resident() -> int:
    """The bytes of this process that are in memory."""
    return _status("VmRSS")


def rewind_peak() -> None:
    """Sets the high-water mark back to what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def fresh_peak() -> int:
    """The most bytes resident since the mark was last set back."""
    return _status("VmHWM")


def trim() -> None:
    """Has the C library give back what it holds for later."""
    ctypes.CDLL(None).malloc_trim(0)


def kept_tensors(except_for: Sequence[torch.Tensor]) -> int:
    """The bytes of all tensors' memory that Python knows of, but for those given."""
    known = {tensor.untyped_storage().data_ptr() for tensor in except_for}
    found: dict[int, int] = {}
    for item in gc.get_objects():
        # By its type, not through isinstance: proxies answer that as they like, and fake tensors have no memory.
        if type(item) not in (torch.Tensor, torch.nn.Parameter):
            continue
        if item.device.type == "cpu" and item.layout is torch.strided:
            storage = item.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(size for address, size in found.items() if address not in known)


def _status(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{_STATUS} has no {field}")
    return int(found[1]) * 1024
