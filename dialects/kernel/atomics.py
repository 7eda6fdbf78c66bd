"""`kernel.atomic`: changes of elements that several lanes and several programs may make, in whatever order."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.scans import ATOMICS, CombinationOp, is_atomic
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.access import LoadOp, MemoryWriteOp
from cuesta.dialects.kernel.function import FuncOp
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.dialects.kernel.structure import LoopOp


class AtomicOp(CombinationOp, MemoryWriteOp):
    """Changes elements that the kernel `updates`: any lane and any program may change any of them.

    Every active lane of the loops around changes its element once, so the address or the mask varies along all of them.
    The order is open. Nothing in the kernel loads from the memory.
    """

    name = "kernel.atomic"
    kinds = ATOMICS
    what = "an atomic change"

    def verify_(self) -> None:
        """Checks the kind, what is written, the lanes, and that the kernel updates the memory and does not read it."""
        self.verify_write()
        if self.kind not in ATOMICS:
            raise VerifyException(f"kernel.atomic: no kind is called {self.kind}; there are {', '.join(ATOMICS)}")
        if not is_atomic(self.kind, scalar_of(self.value.type)):
            raise VerifyException(f"kernel.atomic {self.kind} is not defined on {self.value.type}")
        shape = shape_of(self.value)
        parent: Operation | None = self.parent_op()
        while isinstance(parent, LoopOp):
            if parent.lanes > 1 and (len(shape) <= parent.dim or shape[parent.dim] != parent.lanes):
                raise VerifyException(
                    f"kernel.atomic: the {parent.lanes} lanes around it would make one change; "
                    "the address or the mask must vary along them"
                )
            parent = parent.parent_op()
        func = parent
        while func is not None and not isinstance(func, FuncOp):
            func = func.parent_op()
        if func is None or self.pointer not in func.outs[len(func.outs) - func.updates :]:
            raise VerifyException("kernel.atomic changes what the kernel updates: there are elements from the start")
        if any(isinstance(use.operation, LoadOp) for use in self.pointer.uses):
            raise VerifyException("kernel.atomic: a kernel.load reads what others may be changing")


__all__ = ["ATOMICS", "AtomicOp", "is_atomic"]
