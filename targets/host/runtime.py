"""What a wrapper's names stand for at run time, and how the text becomes a function."""

from __future__ import annotations

import ctypes
import linecache
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from cuesta.targets.cpu.emit_index import BoundSite
from cuesta.targets.cpu.jit import LoadedModule
from cuesta.targets.host.wrapper import Wrapper

if TYPE_CHECKING:
    import torch

_wrappers = 0


def resolve_overload(name: str) -> Callable[..., Any]:
    """The operator of an overload name: `aten.add.Tensor`, `mylib::foo.default`.

    Errors: AttributeError when torch has none of that name.
    """
    import torch

    namespace, _, rest = name.partition("::") if "::" in name else name.partition(".")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


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


def check_metadata(value: torch.Tensor, sizes: Sequence[int], dtype: torch.dtype, overload: str) -> None:
    """Code was generated for what an operator's metadata function promised; anything else would be read as garbage.

    Errors: RuntimeError.
    """
    if value.size() != sizes or value.dtype != dtype:
        raise RuntimeError(
            f"{overload} gave a tensor of {value.dtype} and size {tuple(value.size())}, "
            f"but its fake (meta) function promised {dtype} and {tuple(sizes)}"
        )


def index_error_raiser(sites: Sequence[BoundSite]) -> Callable[[int], NoReturn]:
    """The function a wrapper calls with the address of an error record: it clears the record and raises IndexError."""

    def raise_index_error(address: int) -> NoReturn:
        record: ctypes.Array[ctypes.c_int64] = (ctypes.c_int64 * 3).from_address(address)
        site, value, size = map(int, record)
        record[0] = 0
        where = sites[site - 1].location
        raise IndexError(
            f"index {value} is out of bounds for dimension with size {size}" + (f" ({where})" if where else "")
        )

    return raise_index_error


def build(
    wrapper: Wrapper, module: LoadedModule | None, sites: Sequence[BoundSite]
) -> Callable[[list[Any]], Sequence[Any]]:
    """The wrapper as a function.

    Requires: `module` has the native function of every run.
    """
    import torch

    global _wrappers
    namespace: dict[str, Any] = {
        "torch": torch,
        "empty_strided": torch.empty_strided,
        "as_strided": torch.as_strided,
        "with_strides": with_strides,
        "check_metadata": check_metadata,
        "flattened": flattened,
        "raise_index_error": index_error_raiser(sites),
        "_keep_alive": module,
    }
    for name, overload in wrapper.overloads.items():
        namespace[name] = resolve_overload(overload)
    for run in wrapper.runs:
        assert module is not None
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_int64] * (run.pointers + len(run.symbols))))
        namespace[run.name] = prototype(module.address(run.name))
    _wrappers += 1
    filename = f"<cuesta wrapper {_wrappers}>"
    # Tracebacks and debuggers show the wrapper's text.
    linecache.cache[filename] = (len(wrapper.source), None, wrapper.source.splitlines(keepends=True), filename)
    exec(compile(wrapper.source, filename, "exec"), namespace)
    return namespace["call"]
