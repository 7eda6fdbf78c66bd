"""A process that runs texts and says what came of each: one JSON object a line in, one out.

Whatever a program is given or allocates lies between pages that nobody may touch, and between bytes that nobody may
change: an access beyond its ends ends the process, a small one is found afterwards. Programs for CUDA devices run on
the same memory, their kernels through Triton's interpreter.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ["CUESTA_CACHE"] = "0"
os.environ["TRITON_INTERPRET"] = "1"

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.utils.exceptions import ParseError

import cuesta
from cuesta.context import make_context
from cuesta.dialects import host, sym
from cuesta.dialects.aten import type_to_dtype
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block, entry_function, written_arguments
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.layout import is_tensor_type, sizes_of, strides_of
from cuesta.dialects.texts import kernels
from cuesta.opt import run_captured
from cuesta.pipeline import STAGES
from cuesta.targets.host import runtime
from cuesta.targets.program import CudaError
from tests.fuzz.texts import operators as operators  # which texts of the corpus call

_PAGE = mmap.PAGESIZE
_GUARD = 1 << 20
_CANARY = 0xA5
_COPY = "aten.copy_.default"
_NONE = 0
"""What may be done with a guarded page, as mprotect has it."""
MOST_ELEMENTS = 1 << 22
MEMORY = 12 << 30
"""Bytes of address space, so that a program that asks for all there is fails alone."""

MOST_POINTS = 1 << 30
"""More take so long that nobody could tell them from a program that hangs."""
PATIENCE = 20
"""Seconds for a program on the interpreter, which is a thousand times slower than what it stands in for."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """Memory for a tensor that ends, but for alignment, where a page begins that nobody may touch."""

    live: list[Guarded] = []

    def __init__(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> None:
        elements = 0 if 0 in sizes else 1 + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
        self.bytes = elements * dtype.itemsize
        room = (self.bytes + 63) // 64 * 64
        pages = max(1, (room + _PAGE - 1) // _PAGE) * _PAGE
        try:
            self.map = mmap.mmap(-1, pages + 2 * _GUARD)
        except OSError as error:  # as torch's allocator says it
            raise RuntimeError(f"there is no memory for {pages} bytes") from error
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for start in (base, base + _GUARD + pages):
            if _libc.mprotect(start, _GUARD, _NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.memory = torch.frombuffer(self.map, dtype=torch.uint8, count=pages, offset=_GUARD)
        self.memory.fill_(_CANARY)
        self.start = pages - room
        place = self.memory[self.start : self.start + room].view(dtype)
        self.tensor = place.as_strided(tuple(sizes), tuple(strides))
        Guarded.live.append(self)

    def is_whole(self) -> bool:
        """Whether nobody wrote beyond the tensor."""
        before, after = self.memory[: self.start], self.memory[self.start + self.bytes :]
        return bool((before == _CANARY).all() and (after == _CANARY).all())


def guarded_allocator(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """What stands in for the allocator of programs."""
    return Guarded(sizes, strides, dtype).tensor


def arguments_of(text: str, chooser: random.Random) -> list[Any] | None:
    """Arguments that fit the types of a text's `@main`; None when it has none that can be made."""
    try:
        module = CuestaParser(make_context(), text, "text").parse_module()
        main, block = entry_function(module), entry_block(module)
        declared = main.attributes.get("sym.symbols")
        ranges = declared.ranges if isinstance(declared, sym.SymbolsAttr) else {}
        symbols = {}
        for name, (low, high) in ranges.items():
            symbols[name] = max(low or 0, min(chooser.choice((low or 0, 2, 5, 8)), 40 if high is None else high))
        values: list[Any] = []
        for argument in block.args:
            kind = argument.type
            if isinstance(kind, sym.IntType):
                values.append(int(sym.evaluate(kind.data, (), symbols)))
            elif is_tensor_type(kind):
                sizes = [int(sym.evaluate(size, (), symbols)) for size in sizes_of(kind)]
                strides = [int(sym.evaluate(stride, (), symbols)) for stride in strides_of(kind)]
                values.append(_filled(sizes, strides, getattr(torch, type_to_dtype(kind.element_type)), chooser))
            else:
                return None
        return values
    except Exception:  # noqa: BLE001 - whatever is wrong with the text, `load` has to say it
        return None


def _filled(sizes: list[int], strides: list[int], dtype: torch.dtype, chooser: random.Random) -> torch.Tensor:
    if sum((n - 1) * abs(stride) for n, stride in zip(sizes, strides, strict=True)) > MOST_ELEMENTS:
        raise ValueError
    tensor = Guarded(sizes, strides, dtype).tensor
    generator = torch.Generator().manual_seed(chooser.randrange(1 << 30))
    if dtype.is_floating_point:
        tensor.copy_(torch.randn(tuple(sizes), generator=generator).to(dtype))
    else:
        tensor.copy_(torch.randint(0, 4, tuple(sizes), generator=generator).to(dtype))
    return tensor


class TooLongError(BaseException):
    """A program has run for longer than anyone wants to wait: no fault of its own."""


@contextmanager
def patience(seconds: int) -> Generator[None]:
    """The `with` block in which a program runs. Errors: TooLongError."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def device() -> Any:
    """What stands in for CUDA devices: a module, which is imported when a text first asks for one."""
    from tests.support import triton_server

    triton_server.install()
    guard_allocations()
    return triton_server


def guard_allocations() -> None:
    """From here on every buffer of a program is guarded."""
    runtime.allocator = lambda kind, index=None: guarded_allocator


def run(function: Callable[..., Any], values: list[Any], on_cuda: bool) -> Any:
    """What a program gives. Errors: its own; InterpreterError for what Triton's interpreter cannot do."""
    if not on_cuda:
        return function(*values)
    served = device()
    try:
        with patience(PATIENCE):
            return served.raising(lambda: function(*values))
    except Exception as error:
        if isinstance(error, AssertionError) and "index out of bounds" in str(error):
            return ()  # the device asserts it
        if error is served.DEVICE.error:
            raise InterpreterError(f"{type(error).__name__}: {str(error)[:200]}") from error
        raise


class InterpreterError(Exception):
    """A kernel that has no meaning for Triton: on a device it would not be compiled."""


def place_of(error: BaseException, path: str) -> bool:
    """Whether an error names the text."""
    return path in str(error) or Path(path).name in str(error)


def judge(path: str, seed: int) -> dict[str, Any]:
    """Loads and runs one text. The verdict is `ran`, `refused`, or what was found."""
    text = Path(path).read_text()
    chooser = random.Random(seed)
    Guarded.live.clear()
    phase = "load"
    before: list[Any] = []
    values: list[Any] | None = []
    on_cuda = "cuda" in text
    if on_cuda:
        device()
    try:
        if chooser.random() < 0.3:
            phase = "opt"
            passes = chooser.choice(STAGES).name
            status, _, said = run_captured([path, "-p", passes])
            if status not in (0, 1):
                return {"verdict": "finding", "what": f"opt: status {status} {said[-300:]}"}
        phase = "load"
        function = cuesta.load(path)
        phase = "run"
        values = arguments_of(text, chooser)
        if values is None:
            return {"verdict": "no arguments"}
        before = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
        results = run(function, values, on_cuda)
        for result in results:
            if isinstance(result, torch.Tensor) and result.device.type == "cpu":
                result.double().sum().item() if not result.dtype.is_complex else result.abs().sum().item()
        verdict = _changed(text, before, values)
        return verdict or {"verdict": "ran on cuda" if on_cuda else "ran"}
    except (TooLongError, InterpreterError) as error:
        verdict = _changed(text, before, values)
        name = "too long" if isinstance(error, TooLongError) else "no kernel"
        return verdict or {"verdict": name, "message": str(error)}
    except (CuestaError, ParseError, TypeError, IndexError, ZeroDivisionError) as error:
        if isinstance(error, TypeError) and "argument" not in str(error):
            return _traceback(phase, error)
        if isinstance(error, ZeroDivisionError) or not place_of(error, path):
            return {
                "verdict": "finding",
                "what": f"{phase}: the text is not named: {type(error).__name__}",
                "said": str(error)[:600],
            }
        broken = [one for one in Guarded.live if not one.is_whole()]
        if broken:
            return {"verdict": "finding", "what": f"{phase}: a canary is gone"}
        kind = "parse" if isinstance(error, ParseError) else phase
        return {"verdict": f"refused ({kind})", "message": str(error)[:400]}
    except CudaError as error:  # of a launch that no device takes
        verdict = _changed(text, before, values)
        return verdict or {"verdict": "refused (device)", "message": str(error)}
    except RuntimeError as error:
        if phase == "run" and place_of(error, path):
            return {"verdict": f"refused ({phase})", "message": str(error)[:400]}
        return _traceback(phase, error)
    except Exception as error:  # noqa: BLE001 - the finding
        return _traceback(phase, error)


def _changed(text: str, before: list[Any], values: list[Any] | None) -> dict[str, Any] | None:
    if any(not one.is_whole() for one in Guarded.live):
        return {"verdict": "finding", "what": "run: a canary is gone"}
    module = CuestaParser(make_context(), text, "text").parse_module()
    allowed = {*written_arguments(entry_function(module)), *copied_to(module)}
    for position, (old, new) in enumerate(zip(before, values or (), strict=True)):
        if isinstance(old, torch.Tensor) and position not in allowed and not torch.equal(_bits(old), _bits(new)):
            return {"verdict": "finding", "what": f"run: argument {position} was changed"}
    return None


def copied_to(module: ModuleOp) -> set[int]:
    """The positions of the arguments that eager copies to, in a program with a part that eager runs."""
    found = (op.operands[0] for op in entry_block(module).ops if isinstance(op, host.EagerOp) and op.overload == _COPY)
    return {value.index for value in found if isinstance(value, BlockArgument)}


def _bits(value: torch.Tensor) -> torch.Tensor:
    row = torch.empty(value.numel(), dtype=value.dtype)  # a stride of one, also where there is one element
    return row.copy_(value.reshape(-1)).view(torch.uint8)


def _traceback(phase: str, error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
    return {"verdict": "finding", "what": f"{phase}: {type(error).__name__}: {str(error)[:300]}", "where": where}


def main() -> None:
    """Serves until its input ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernels.MOST_POINTS = MOST_POINTS
    guard_allocations()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a program prints
    for line in sys.stdin:
        job = json.loads(line)
        answers.write(json.dumps(judge(job["path"], job["seed"])) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
