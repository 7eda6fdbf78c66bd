"""A kernel that has no machine code: the interpreter in its place, on the memory it would have been launched on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cuesta.dialects import kernel
from cuesta.targets.reference.kernel import run_kernel
from cuesta.targets.reference.memory import Memory
from cuesta.targets.reference.numerics import Numerics, flat


def stand_in(func: kernel.FuncOp) -> Callable[..., None]:
    """A function of the kernel's tensors and then its symbols, which does what a launch does, with operations of torch.

    They run on the device that the tensors are on.
    Errors: those of `run_kernel`.
    """
    count = len(func.body.args)
    first_out = count - func.num_outs
    fresh = func.num_outs - func.updates

    def run(*values: Any) -> None:
        tensors = values[:count]
        symbols = dict(zip(func.symbols, map(int, values[count:]), strict=True))
        with torch.no_grad(), torch.device(tensors[-1].device):
            outs = [Memory(flat(out), given=place >= fresh) for place, out in enumerate(tensors[first_out:])]
            run_kernel(func, Numerics(), symbols, [flat(tensor) for tensor in tensors[:first_out]], outs)

    return run
