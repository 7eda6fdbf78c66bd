"""What a wrapper's names stand for at run time, and how the text becomes a function."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from cuesta.dialects.core.keyed_draws import BERNOULLI, RANDOM_KEY
from cuesta.dialects.core.process_lock import ProcessLock
from cuesta.dialects.core.random_words import RANDOM_WORDS
from cuesta.targets.cpu.libraries import free_record
from cuesta.targets.cpu.python_calls import python_function
from cuesta.targets.host.kept import Kept
from cuesta.targets.program import BoundSite, Program, SharedLibrary
from cuesta.targets.python_functions import define

if TYPE_CHECKING:
    import torch

    from cuesta.targets.cpu.machine_code import LoadedModule

Wrapper = Callable[[list[Any]], Sequence[Any]]
"""A wrapper's function: it takes a list of inputs, which it empties, and gives the results."""

Allocator: TypeAlias = "Callable[[Sequence[int], Sequence[int], torch.dtype], torch.Tensor]"

_ALLOCATOR = re.compile(r"\bempty_([a-z]+)(?:_(\d+))?\(")

_METHODS_OF_TORCH = {
    "aten.mm.default": "mm",
    "aten.addmm.default": "addmm",
    "aten.bmm.default": "bmm",
    "aten.baddbmm.default": "baddbmm",
    "aten.convolution.default": "convolution",
}
"""Overloads that `torch` has a function for, with the same arguments: calling it takes 0.6 µs less."""


def resolve_overload(name: str) -> Callable[..., Any]:
    """The operator of an overload name: `aten.add.Tensor`, `mylib::foo.default`.

    Errors: AttributeError when torch has none of that name.
    """
    if name.startswith("operator "):
        from cuesta.lowering.capture.operator_names import resolve_operator

        return resolve_operator(name.removeprefix("operator "))
    import torch

    if name == RANDOM_WORDS:
        from cuesta.targets.host.random_words import random_words

        return random_words
    if name in (RANDOM_KEY, BERNOULLI):  # in a piece that eager runs
        from cuesta.targets.reference.keyed_draws import KEYED_DRAWS

        return KEYED_DRAWS[name]
    if name in _METHODS_OF_TORCH:
        return getattr(torch, _METHODS_OF_TORCH[name])
    if name == "aten.view_as_complex.default":
        return _view_as_complex
    namespace, _, rest = name.partition("::") if "::" in name else name.partition(".")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _view_as_complex(pairs: torch.Tensor) -> torch.Tensor:
    """`torch.view_as_complex`, but what it gives is a view of nothing; it counts changes with its memory's tensor.

    AOTAutograd makes the view that a result is of an input as the result is of its own base, which it takes to be of
    the input's type. Source: `gen_alias_from_base` of torch/_functorch/_aot_autograd/functional_utils.py.
    """
    import torch

    return torch.view_as_complex(pairs).detach()


def is_overload(name: str) -> bool:
    """Whether torch has an operator of that overload name."""
    import torch

    if name in _METHODS_OF_TORCH or name in ("aten.view_as_complex.default", RANDOM_WORDS, RANDOM_KEY, BERNOULLI):
        return True
    try:
        found = resolve_overload(name)
    except (AttributeError, RuntimeError, ValueError):
        return False
    return isinstance(found, torch._ops.OpOverload)  # pyright: ignore[reportPrivateUsage]


def allocator(kind: str, index: int | None = None) -> Allocator:
    """A function of sizes, strides and dtype that makes a tensor on a device with undefined contents.

    The one that TorchInductor's wrappers call for the type of device takes half as long as `torch.empty_strided`. It is
    not public, so a torch without it does the same more slowly; and it takes the present device, which will do where
    there is one.
    """
    import torch

    quick = getattr(torch._C._dynamo.guards, f"_empty_strided_{kind}", None)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportUnknownArgumentType, reportAttributeAccessIssue]
    if quick is not None and (index is None or torch.get_device_module(kind).device_count() == 1):
        return quick
    place = torch.device(kind) if index is None else torch.device(kind, index)
    return lambda sizes, strides, dtype: torch.empty_strided(sizes, strides, dtype=dtype, device=place)


def reinterpreter() -> Callable[[torch.Tensor, Sequence[int], Sequence[int], int], torch.Tensor]:
    """A function that gives a tensor's memory, from an element counted from its first on, other sizes and strides.

    Like the quick allocators, it is one of TorchInductor's: what it gives is no view that autograd knows of.
    """
    import torch

    try:
        return torch._C._dynamo.guards._reinterpret_tensor  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue]
    except AttributeError:
        return lambda source, sizes, strides, offset: source.as_strided(
            sizes, strides, source.storage_offset() + offset
        )


def with_strides(value: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The same values laid out with other strides: what a library call gave is not what its metadata function
    promised.
    """
    import torch

    if any(size != 1 and a != b for size, a, b in zip(value.shape, value.stride(), strides, strict=True)):
        copy = torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device)
        return copy.copy_(value)
    return value.as_strided(value.shape, strides)


def flattened(results: object) -> tuple[Any, ...]:
    """The results of an operator one after the other, those in lists too."""
    if not isinstance(results, tuple | list):
        return (results,)
    return tuple(leaf for result in cast("Sequence[object]", results) for leaf in flattened(result))


def unboxed(function: Wrapper, single: bool, last: Sequence[Any]) -> Callable[..., Any]:
    """A part of a program as a function of its arguments, but for the `last`; `single`: it gives no tuple."""

    def call(*arguments: Any) -> Any:
        results = function([*arguments, *last])
        return results[0] if single else tuple(results)

    return call


def check_metadata(value: Any, sizes: Sequence[int], dtype: torch.dtype, device: str, overload: str) -> None:
    """Code was generated for what an operator's metadata function promised; anything else would be read as garbage, and
    a tensor without memory of its own as whatever lies at the address 0.

    Errors: RuntimeError.
    """
    import torch

    promised = f"but its fake (meta) function promised {dtype} and {tuple(sizes)} on {device}"
    if not isinstance(value, torch.Tensor):
        raise RuntimeError(f"{overload} gave no tensor but a {type(value).__name__}, {promised}")
    place = value.device
    if value.size() != sizes or value.dtype != dtype or device not in (place.type, str(place)):
        raise RuntimeError(
            f"{overload} gave a tensor of {value.dtype} and size {tuple(value.size())} on {place}, {promised}"
        )
    if value.layout is not torch.strided:
        raise RuntimeError(f"{overload} gave a tensor of the layout {value.layout}, {promised} and torch.strided")


def check_storage(source: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int, where: str) -> None:
    """An alias that a text asks for lies within the memory that it is of.

    Errors: RuntimeError, which names the line of the text.
    """
    least, most = (0, 0) if 0 in sizes else (1, 1 + _distance(sizes, strides))
    there = 0 if source.numel() == 0 else 1 + _distance(source.shape, source.stride())
    if min((*sizes, *strides, offset, 0)) < 0 or (least and offset + most > there):
        raise RuntimeError(
            f"{where}  host.reinterpret: sizes {tuple(sizes)} and strides {tuple(strides)} from {offset} on do not lie "
            f"within {there} elements"
        )


def words(source: torch.Tensor, axis: int, strides: Sequence[int]) -> torch.Tensor:
    """What the memory of a tensor holds as words of 32 bits, each of neighbours along an axis: a copy, to be read by
    what takes tensors.
    """
    import torch

    found = source.movedim(axis, -1).clone(memory_format=torch.contiguous_format).view(torch.int32).movedim(-1, axis)
    return torch.empty_strided(found.shape, tuple(strides), dtype=torch.int32).copy_(found)


def _distance(sizes: Sequence[int], strides: Sequence[int]) -> int:
    return sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def check_result(
    value: Any, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: str, overload: str, where: str
) -> torch.Tensor:
    """What a call gave, laid out as a text says.

    Errors: RuntimeError, which names the line of the text, when it has another dtype, device or size.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        raise RuntimeError(f"{where}  {overload} gave no tensor but a {type(value).__name__}")
    if value.dtype != dtype or tuple(value.shape) != tuple(sizes) or value.device.type != torch.device(device).type:
        raise RuntimeError(
            f"{where}  {overload} gave a tensor of {value.dtype} and size {tuple(value.shape)} on {value.device}, "
            f"but the text says {dtype} and {tuple(sizes)} on {device}"
        )
    return value if value.stride() == tuple(strides) else with_strides(value, strides)


class OutOfRangeError(IndexError, RuntimeError):
    """An index out of range: what eager raises is an IndexError or a RuntimeError, depending on the operator."""


def index_error_raiser(sites: Sequence[BoundSite]) -> Callable[[int], NoReturn]:
    """The function a wrapper calls with the address of an error record, which a run has made by `malloc`: it gives the
    record back and raises the error. A run that had no memory for a record gives -1.
    """

    def raise_index_error(address: int) -> NoReturn:
        if address == -1:
            raise MemoryError("an index is out of range, and there is no memory to say which")
        record: ctypes.Array[ctypes.c_int64] = (ctypes.c_int64 * 3).from_address(address)
        site, value, size = map(int, record)
        free_record(address)
        where = sites[site - 1].location
        if sites[site - 1].divides:
            raise RuntimeError("ZeroDivisionError" + (f" ({where})" if where else ""))  # as eager words it
        if sites[site - 1].access:
            raise _outside(sites[site - 1], value, size)
        raise OutOfRangeError(
            f"index {value} is out of bounds for dimension with size {size}" + (f" ({where})" if where else "")
        )

    return raise_index_error


NOTHING = -(1 << 63)
"""What stands in a report where no check failed: no kernel computes such an address."""


def new_report(rows: int, device: str) -> torch.Tensor:
    """What kernels report failing checks to: for each, which element was asked for, and how many there are."""
    import torch

    return torch.full((2 * rows,), NOTHING, dtype=torch.int64, device=device)


def report_checker(sites: Sequence[BoundSite]) -> Callable[[torch.Tensor], None]:
    """The function a wrapper calls with a report after a run that writes to it: it waits for the device, and raises the
    error of the first check that failed.
    """

    def check_report(report: torch.Tensor) -> None:
        rows = cast("list[int]", report.tolist())  # pyright: ignore[reportUnknownMemberType]
        for place, element in enumerate(rows[::2]):
            if element != NOTHING:
                raise _outside(sites[place], element, rows[2 * place + 1])

    return check_report


def _outside(site: BoundSite, element: int, size: int) -> OutOfRangeError:
    there = f"element {element} is not one of the {max(size, 0)} that there are"
    return OutOfRangeError(f"{site.location}  {site.access}: {there}")


def build(
    program: Program, module: LoadedModule | None, in_eager: Mapping[str, Callable[..., None]] | None = None
) -> Wrapper:
    """The wrapper as a function. `in_eager` are functions it calls in place of kernels that have no machine code.

    Requires: `module` has the program's native functions, if there are any.
    Errors: CudaError when kernels cannot be loaded.
    """
    function = _without_code(program, in_eager)
    _bind_code(function, program, module)
    return function


def build_unfinished(program: Program, finish: Callable[[], LoadedModule | None]) -> Wrapper:
    """The wrapper as a function whose first call asks `finish` for the native functions.

    The function's code is that of `_FIRST_CALL` until then, so later calls cost nothing more.
    Errors: the first call raises what `finish` raises, and so do others until one succeeds.
    """
    function = _without_code(program, None)
    code, lock = function.__code__, ProcessLock()

    def complete() -> None:
        with lock.here:
            if function.__code__ is not code:
                _bind_code(function, program, finish())
                function.__code__ = code
                # Not deleted: another thread may have begun its first call, and ask yet.
                function.__globals__["_complete"] = _is_complete

    function.__globals__["_complete"] = complete
    function.__code__ = _first_call().__code__
    return function


def _is_complete() -> None:
    """What a first call asks for that began before another had completed the function."""


_FIRST_CALL = """\
def call(args):
    _complete()
    return call(args)
"""


@functools.cache
def _first_call() -> FunctionType:
    namespace: dict[str, Any] = {}
    define(_FIRST_CALL, "first call", namespace)
    return namespace["call"]


def _without_code(program: Program, in_eager: Mapping[str, Callable[..., None]] | None) -> FunctionType:
    """The wrapper's function, without its native functions."""
    import torch

    from cuesta.targets.host.profiled import PROFILER, TWIN, Profiled
    from cuesta.targets.host.promised_calls import check_call, copies_of

    profiled = Profiled(program.labels)
    namespace: dict[str, Any] = {
        "torch": torch,
        PROFILER: torch.autograd.profiler,
        TWIN: profiled,
        "reinterpret": reinterpreter(),
        "Kept": Kept,
        "words": words,
        "with_strides": with_strides,
        "check_metadata": check_metadata,
        "check_result": check_result,
        "check_storage": check_storage,
        "flattened": flattened,
        "unboxed": unboxed,
        "copies_of": copies_of,
        "check_call": check_call,
        "raise_index_error": index_error_raiser(program.sites),
        "new_report": new_report,
        "check_report": report_checker(program.sites),
        **(in_eager or {}),
    }
    for called in {match[0]: match for match in _ALLOCATOR.finditer(program.source)}.values():
        name = called[0][:-1]
        if name not in program.overloads:
            namespace[name] = allocator(called[1], None if called[2] is None else int(called[2]))
    for name, overload in program.overloads.items():
        namespace[name] = resolve_overload(overload)
    define(program.source, "wrapper", namespace)
    profiled.wrapper = namespace["call"]
    return namespace["call"]


def _bind_code(function: FunctionType, program: Program, module: LoadedModule | None) -> None:
    """Gives a wrapper's function its native functions. Errors: CudaError."""
    namespace = function.__globals__
    namespace["_keep_alive"] = module
    if program.device_runs:
        from cuesta.targets.triton.driver import bind_runs, current_stream

        assert module is not None
        namespace["current_stream"] = current_stream
        namespace.update(bind_runs(program.device_kernels, program.device_runs, module.symbols))
    for native in program.functions:
        assert module is not None
        namespace[native.name] = python_function(native, module.symbols, module)
    for library in program.libraries:
        namespace.update(_functions_of(library))


def _functions_of(library: SharedLibrary) -> dict[str, Callable[..., int]]:
    """The functions of a library, loaded by the system, where it stays as long as the process lives.

    Errors: RuntimeError when it cannot be loaded.
    """
    handle, path = tempfile.mkstemp(prefix="cuesta-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(library.content)
        loaded = ctypes.CDLL(path)
        functions = {one.name: getattr(loaded, one.name) for one in library.functions}
    except (OSError, AttributeError) as error:
        raise RuntimeError(f"a library of kernels cannot be loaded: {error}") from error
    finally:
        os.unlink(path)
    for one in library.functions:
        functions[one.name].restype = ctypes.c_int64
        functions[one.name].argtypes = [ctypes.c_void_p] * one.arguments
    return functions
