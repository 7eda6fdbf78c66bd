"""Operators that PyTorch takes apart before autograd, where no decomposition table can say otherwise: kept whole.

PyTorch's Python dispatcher, with which AOTAutograd traces, has kernels of its own for these. Where sizes are numbers,
ours call the operator's own overload instead: its derivative is PyTorch's, and both reach the table as one call, for
which `lowering/aten/upsampling.py` has a rule. Where sizes are symbols, PyTorch's kernels do what they did.

A product of tensors is taken apart by a kernel in Python that is there for symbols; where sizes are numbers, the one in
C++ gives the same nodes in a third of the time. It ends in `_unsafe_view`, as `reshape` does where it copies:
functional tensors remember a view and autograd none, so that a view of a product would be made anew of another tensor.
Here it is `_reshape_alias_copy`, a view to neither, as in eager: what is returned twice is one object. The table makes
`view` of it, for nothing else sees its input.

What raises where a factorisation has failed (`_linalg_check_errors`) gives nothing, and torch 2.11 drops it as a call
without a use: the inverse of a singular matrix was NaN, where eager raises. It is an effect here, as it is to torch
2.13: tokens keep such calls, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from torch._ops import OpOverload

INTERPOLATIONS: tuple[tuple[str, int], ...] = (
    ("upsample_nearest1d", 1),
    ("upsample_nearest2d", 2),
    ("upsample_nearest3d", 3),
    ("_upsample_nearest_exact1d", 1),
    ("_upsample_nearest_exact2d", 2),
    ("_upsample_nearest_exact3d", 3),
    ("upsample_linear1d", 1),
    ("upsample_bilinear2d", 2),
    ("upsample_trilinear3d", 3),
    ("upsample_bicubic2d", 2),
)
"""Names, and over how many dims each interpolates."""


_Kernels: TypeAlias = "list[tuple[OpOverload, dict[Any, Callable[..., Any]]]]"

_lock = Lock()
_tracing = 0
"""How many `with` blocks are open, in all threads."""
_kept: _Kernels = []
"""The kernels that the first of them found, and the last puts back."""
_CHECK = "aten::_linalg_check_errors"
_effects: list[Any] = []
"""What takes back that a check is an effect."""


@contextmanager
def whole_operators() -> Generator[None]:
    """Keeps these operators whole in what is traced in a `with` block.

    The kernels are PyTorch's own, of the whole process; `torch.export` exchanges them in the same way while it traces.
    Blocks may lie in each other, and in several threads at a time: they are one exchange, from the first to open to the
    last to close.
    """
    global _tracing
    is_open = False
    try:
        with _lock:
            if _tracing == 0:
                _put_back()  # what an interrupt left undone
                _exchange()
            _tracing += 1
            is_open = True
        yield
    finally:
        if is_open:
            with _lock:
                _tracing -= 1
                if _tracing == 0:
                    _put_back()


def _exchange() -> None:
    """Puts our kernels in the place of PyTorch's. When that fails, everything is as it was."""
    import torch
    from torch._C import DispatchKey

    try:
        for name, rank in INTERPOLATIONS:
            packet: Any = getattr(torch.ops.aten, name)
            for overload in (packet.vec, packet.default):
                _kept.append((overload, overload.py_kernels.copy()))
                for key in (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd):
                    kernel = overload.py_kernels.pop(key, None)
                    if kernel is not None and overload is packet.vec:
                        overload.py_kernels[key] = _whole_if_static(packet.default, kernel, rank)
                _forget_dispatch(overload)
        product = torch.ops.aten.matmul.default
        _kept.append((product, product.py_kernels.copy()))
        if (kernel := product.py_kernels.pop(DispatchKey.CompositeImplicitAutograd, None)) is not None:
            product.py_kernels[DispatchKey.CompositeImplicitAutograd] = _native_if_static(product, kernel)
        _forget_dispatch(product)
        reshaped = torch.ops.aten._unsafe_view.default
        _kept.append((reshaped, reshaped.py_kernels.copy()))
        reshaped.py_kernels[DispatchKey.Autograd] = _reshaped
        _forget_dispatch(reshaped)
        library: Any = getattr(torch, "_library")  # noqa: B009
        effect = library.simple_registry.singleton.find(_CHECK).effect
        if effect.effect is None:
            _effects.append(effect.register(library.effects.EffectType.ORDERED))
    except BaseException:
        _put_back()
        raise


def _reshaped(source: Any, size: Sequence[Any]) -> Any:
    """`_unsafe_view`. A subclass of tensors is asked for just that, as in eager; its parts come here by themselves.
    Transforms know views alone.
    """
    import torch
    from torch._dispatch.python import no_python_dispatcher
    from torch._subclasses.functional_tensor import FunctionalTensor
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if is_traceable_wrapper_subclass(source):
        with no_python_dispatcher():
            return torch.ops.aten._unsafe_view.default(source, size)
    view = torch.ops.aten.view.default
    if type(source) is not FunctionalTensor:
        return view(source, size)
    if source.is_complex():  # of which the other has no derivative
        return torch.ops.aten.view_copy.default(source, size)
    strides = view(source.detach(), size).stride()
    return torch.ops.aten._reshape_alias_copy.default(source, size, strides)


def _put_back() -> None:
    while _kept:
        overload, kernels = _kept[-1]
        overload.py_kernels.clear()
        overload.py_kernels.update(kernels)
        _forget_dispatch(overload)
        _kept.pop()
    while _effects:
        _effects.pop().destroy()


def _forget_dispatch(overload: OpOverload) -> None:
    """Makes the dispatcher look at the kernels again, as `py_impl` does."""
    overload._dispatch_cache.clear()  # pyright: ignore[reportPrivateUsage]


def _whole_if_static(default: OpOverload, kernel: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """A kernel for an overload that is given sizes or factors, in which the `default` overload does the work."""
    from torch._decomp import decompositions

    # PyTorch's own rounding of sizes; it has no types.
    result_sizes = cast(
        "Callable[[Sequence[int], Sequence[int] | None, Sequence[float] | None], list[int]]",
        decompositions.upsample_compute_output_size,  # pyright: ignore[reportUnknownMemberType]
    )

    def whole(source: Any, output_size: Any, *options: Any) -> Any:
        *modes, factors = options
        if any(type(size) is not int for size in (*source.shape, *(output_size or ()))):
            return kernel(source, output_size, *options)
        sizes = result_sizes(source.shape, output_size, factors)
        return default(source, sizes, *modes, *(factors or [None] * rank))

    return whole


def _native_if_static(overload: OpOverload, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that takes an operator apart, which leaves the work to the dispatcher's own where sizes are numbers."""
    from torch._C import DispatchKey

    def native(*arguments: Any) -> Any:
        if any(type(size) is not int for argument in arguments for size in argument.shape):
            return kernel(*arguments)
        return overload._op_dk(DispatchKey.CompositeImplicitAutograd, *arguments)  # pyright: ignore[reportPrivateUsage]

    return native
