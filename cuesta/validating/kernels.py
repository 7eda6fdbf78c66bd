"""`validate: "kernels"`: machine code beside the interpreter, on parts of what a kernel is launched on.

Every kernel is compared when it is first launched, and then as often as the time for it allows: comparing takes no
longer than the kernels themselves do. What is compared are a few programs of the grid, or of a kernel that is one loop
a few of its points at either end and between. The other points are not looked at; what a kernel stores where it should
not is seen only among those that are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from cuesta.dialects.core.operation import PlainBlock
from cuesta.replaying.comparing import compare_results
from cuesta.targets.target import Target
from cuesta.validating.errors import ValidationError
from cuesta.validating.samples import samples_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dialects.kernel import FuncOp

SHARE = 1.0
"""How long comparing may take, over all launches, for each second that kernels take. Source: a definition."""
WHOLE = 1 << 16
"""So many elements may a kernel have whose programs change each other's memory, to be compared: as a whole."""


class CheckedTarget(Target):
    """The target of a device, whose kernels are compared with the interpreter when they run."""

    name = "checked"
    takes_tensors = True

    def stand_in(self, kernel: FuncOp) -> Callable[..., None]:
        """A function of a kernel's tensors, and then its symbols, that launches it and compares."""
        return CheckedKernel(kernel)


class Clock:
    """The time that kernels took, and comparing them."""

    def __init__(self) -> None:
        self.running = 0.0
        self.comparing = 0.0
        self.kernels = 0
        """The kernels that were compared."""
        self.compared = 0
        """How often they were, all together."""
        self.skipped = 0
        """How often a kernel was launched and could not be compared: programs that change each other's memory."""

    @property
    def has_time(self) -> bool:
        """Whether there is time to compare once more."""
        return self.comparing <= SHARE * self.running


CLOCK = Clock()
"""Of this process."""


class CheckedKernel:
    """One kernel."""

    def __init__(self, func: FuncOp) -> None:
        self.func = func
        self.machine: Callable[[list[Any]], Any] | None = None
        self.samples = samples_of(func)
        self.random = random.Random(func.sym_name)
        self.was_compared = False

    def __call__(self, *values: Any) -> None:
        """Launches the kernel on its tensors and symbols, and compares what it gives. Errors: ValidationError."""
        count = len(self.func.body.args)
        tensors = values[:count]
        first_out = count - self.func.num_outs
        if self.machine is None:
            self.machine = _compiled(self.func, str(tensors[-1].device))
        compares = not self.was_compared or CLOCK.has_time
        if compares and self.samples is None and sum(one.numel() for one in tensors) > WHOLE:
            CLOCK.skipped += 1
            compares = False
        start = perf_counter()
        before = self._before(tensors, first_out) if compares else tensors
        middle = perf_counter()
        self.machine(list(values))
        end = perf_counter()
        CLOCK.running += end - middle
        if compares:
            symbols = dict(zip(self.func.symbols, map(int, values[count:]), strict=True))
            self._compare(before, tensors, first_out, symbols)
            CLOCK.kernels += not self.was_compared
            CLOCK.compared += 1
            self.was_compared = True
            CLOCK.comparing += perf_counter() - end + middle - start

    def _before(self, tensors: Sequence[torch.Tensor], first_out: int) -> list[torch.Tensor]:
        """What the interpreter is given: copies of what the kernel writes over."""
        kept = first_out if self.samples is not None else len(tensors)
        outs = {one.untyped_storage().data_ptr() for one in tensors[first_out:]}
        return [
            one.clone() if one.untyped_storage().data_ptr() in outs and at < max(kept, first_out) else one
            for at, one in enumerate(tensors)
        ]

    def _compare(
        self,
        before: Sequence[torch.Tensor],
        after: Sequence[torch.Tensor],
        first_out: int,
        symbols: dict[str, int],
    ) -> None:
        problem = self._difference(before, after, first_out, symbols, precise=False)
        if problem is not None and (problem := self._difference(before, after, first_out, symbols, precise=True)):
            raise _error(self.func, problem, before, first_out)

    def _difference(
        self,
        before: Sequence[torch.Tensor],
        after: Sequence[torch.Tensor],
        first_out: int,
        symbols: dict[str, int],
        *,
        precise: bool,
    ) -> str | None:
        """How the machine code's results differ in the samples. Without `precise`, the interpreter's are taken for the
        truth: what agrees then is right.
        """
        from cuesta.targets.reference.kernel import run_kernel
        from cuesta.targets.reference.memory import Memory
        from cuesta.targets.reference.numerics import Numerics, flat

        fresh = self.func.num_outs - self.func.updates
        samples = [(self.func, None)] if self.samples is None else self.samples.of(symbols, self.random)
        with torch.no_grad(), torch.device(after[-1].device):
            for func, programs in samples:
                found: list[list[Memory]] = []
                for numerics in (Numerics(), *((Numerics(precise=True),) if precise else ())):
                    inputs = [numerics.hold(flat(one)) for one in before[:first_out]]
                    outs = [_memory(one, numerics, given=at >= fresh) for at, one in enumerate(before[first_out:])]
                    run_kernel(func, numerics, symbols, inputs, outs, programs)
                    found.append(outs)
                for number, (out, expected) in enumerate(zip(after[first_out:], found[0], strict=True)):
                    stored = expected.stored if self.samples is not None else slice(None)
                    rows = [flat(out)[stored], expected.data[stored], found[-1][number].data[stored]]
                    (compared,) = compare_results([rows[0]], [rows[1]], [rows[2]], names=[f"out {number}"])
                    if not compared.passes:
                        return str(compared).removeprefix("FAIL ")
        return None


def _memory(tensor: torch.Tensor, numerics: Any, *, given: bool) -> Any:
    from cuesta.targets.reference.memory import Memory
    from cuesta.targets.reference.numerics import flat

    held = flat(tensor)
    if given:
        return Memory(numerics.hold(held.clone()), given=True)
    return Memory(torch.empty(held.shape, dtype=numerics.adjust(held.dtype)))


def _compiled(func: FuncOp, device: str) -> Callable[[list[Any]], Any]:
    """The machine code of a kernel alone: a function of the list of its tensors and symbols."""
    from cuesta.bisecting.kernels import compiled
    from cuesta.targets.lookup import running_on

    with running_on("device"):
        return compiled(launching(func, device))


def launching(func: FuncOp, device: str, tensors: Sequence[torch.Tensor] | None = None) -> ModuleOp:
    """A program at `host` that launches a kernel on its arguments, the outs among them. Their types are those of
    `tensors`, or else of as little memory as there can be: machine code is given addresses.
    """
    from xdsl.dialects.builtin import FunctionType, ModuleOp
    from xdsl.ir import Attribute, Region

    from cuesta.dialects import host, sym
    from cuesta.dialects.core.entry import writes_to
    from cuesta.dialects.kernel import PointerType
    from cuesta.dialects.layout import tensor_type

    types: list[Attribute] = []
    for at, argument in enumerate(func.body.args):
        assert isinstance(argument.type, PointerType)
        sizes = (1,) if tensors is None else tuple(tensors[at].shape)
        strides = None if tensors is None else tuple(tensors[at].stride())
        types.append(tensor_type(sizes, argument.type.element_type, strides, device))
    count = len(types)
    types += [sym.IntType(sym.symbol(name)) for name in func.symbols]
    block = PlainBlock(arg_types=types)
    for argument, pointer in zip(block.args, func.body.args, strict=False):
        argument.name_hint = pointer.name_hint
    block.add_op(host.LaunchOp.build(func.sym_name, list(block.args[:count])))
    block.add_op(host.ReturnOp.build([]))
    attributes: dict[str, Attribute] = {"aten.writes_to": writes_to(range(count - func.num_outs, count))}
    if func.symbols:
        attributes["sym.symbols"] = sym.SymbolsAttr.get(dict.fromkeys(func.symbols, (0, None)))
    main = host.FuncOp.build("main", FunctionType.from_lists(types, []), Region(block), attributes)
    return ModuleOp([func.clone(), main])


def _error(func: FuncOp, problem: str, tensors: Sequence[torch.Tensor], first_out: int) -> ValidationError:
    from cuesta.bisecting.kernels import target_of_device
    from cuesta.dialects.core.diagnostics import Diagnostic
    from cuesta.dialects.core.locations import format_origin, print_text
    from cuesta.targets.reports import kept

    device = str(tensors[-1].device)
    text = print_text(launching(func, device, tensors), locations=True)
    path = kept({f"{func.sym_name}.mlir": text}) / f"{func.sym_name}.mlir"
    return ValidationError(
        Diagnostic(
            f"the machine code of @{func.sym_name}, by the target {target_of_device(device)}, gives something else "
            f"than the kernel means: {problem}",
            place=format_origin(func.location),
            op_name="kernel.func",
            repeat=f"cuesta bisect {path}",
        )
    )


__all__ = ["CLOCK", "CheckedKernel", "CheckedTarget", "launching"]
