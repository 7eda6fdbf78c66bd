"""What the text of a random program may use besides torch: inputs, a subclass of tensors, a function with a gradient
of its own, a mesh of one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from torch import Tensor
from torch._higher_order_ops.associative_scan import associative_scan as torch_associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.utils._python_dispatch import _disable_current_modes, return_and_correct_aliasing
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from tests.fuzz.calls.operators import fuzz

DEVICE = "cpu"
"""Where inputs are made; `use_device` changes it."""

WIDE = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}
WIDE |= {torch.complex64: torch.complex128}
_widens = False


def use_device(name: str) -> None:
    """Makes inputs on a device from here on."""
    global DEVICE
    DEVICE = name


@contextmanager
def widened() -> Any:
    """Inputs are made in float64 (complex128), with the same numbers, whatever their text says; also new tensors. What
    takes only float32 is given that.
    """
    global _widens
    _widens = True
    torch.set_default_dtype(torch.float64)
    try:
        with ExitStack() as patched:
            for owner, name in ((torch, "_scaled_mm"), *((decomposed, name) for name in QUANTISED)):
                patched.enter_context(patch.object(owner, name, _Narrow(getattr(owner, name))))
            yield
    finally:
        _widens = False
        torch.set_default_dtype(torch.float32)


class _Narrow:
    """An operator, or an overload of it, for float64: the numbers go through float32."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def __getattr__(self, overload: str) -> Any:
        return _Narrow(getattr(self.run, overload))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            given = tree_map_only(Tensor, lambda one: _cast(one, torch.float64, torch.float32), (args, kwargs))
            made = self.run(*given[0], **given[1])
            return tree_map_only(Tensor, lambda one: _cast(one, torch.float32, torch.float64), made)


def _cast(tensor: Tensor, given: torch.dtype, wanted: torch.dtype) -> Tensor:
    return tensor.to(wanted) if tensor.dtype == given else tensor


@contextmanager
def chosen_outright() -> Any:
    """`torch.cond` is an `if`, scans and `while_loop` are loops, as they are to the numbers: eager traces what they
    call, which not every mode survives.
    """
    global _is_outright

    def cond(condition: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: Any = ()) -> Any:
        return (yes if condition else no)(*operands)

    before, _is_outright = _is_outright, True
    try:
        with patch.object(torch, "cond", cond):
            yield
    finally:
        _is_outright = before


_is_outright = False


def scan(step: Callable[..., Any], first: Tensor, rows: Tensor) -> Any:
    """The last of what `step(carried, row) -> (carried, result)` carries, and the results, stacked."""
    if not _is_outright:
        return torch_scan(step, first, rows)
    results: list[Tensor] = []
    for row in rows:
        first, result = step(first, row)
        results.append(result)
    return first, torch.stack(results)


def while_loop(goes_on: Callable[..., Any], step: Callable[..., Any], carried: tuple[Any, ...]) -> Any:
    """What is carried when `goes_on(*carried)` is false for the first time; `step` says what follows."""
    if not _is_outright:
        return torch_while_loop(goes_on, step, carried)
    carried = tuple(one.clone() for one in carried)  # no result is an argument
    while goes_on(*carried):
        carried = tuple(step(*carried))
    return carried


def mapped(function: Callable[..., Tensor], rows: Tensor, *others: Tensor) -> Tensor:
    """The function of each row, stacked."""
    if not _is_outright:
        traced: Any = torch_map
        return traced(function, rows, *others)
    return torch.stack([function(row, *others) for row in rows])


def running(combine: Callable[[Tensor, Tensor], Tensor], rows: Tensor) -> Tensor:
    """What an associative function makes of all rows up to each."""
    if not _is_outright:
        return torch_associative_scan(combine, rows, 0, combine_mode="generic")
    results = [rows[0]]
    for row in rows[1:]:
        results.append(combine(results[-1], row))
    return torch.stack(results)


def odd(tensor: Tensor) -> Tensor:
    """The tensor, with strides that mean nothing: of axes of one element, or of none."""
    strides = tensor.stride()
    if tensor.numel():
        strides = [stride if size > 1 else 7 for size, stride in zip(tensor.shape, strides, strict=True)]
    else:
        strides = [3] * tensor.dim()
    return tensor.as_strided(tensor.shape, strides)


def numbers(seed: int, dtype: torch.dtype, *sizes: int) -> Tensor:
    """Multiples of 1/8 between −3 and 3, exact in every dtype, so that ties occur; integers 0 to 7; booleans."""
    generator = torch.Generator().manual_seed(seed)
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 2 if dtype == torch.bool else 8, sizes, generator=generator).to(DEVICE, dtype)
    drawn = torch.randint(-24, 25, sizes, generator=generator) / 8
    if dtype.is_complex:
        drawn = torch.complex(drawn, torch.randint(-24, 25, sizes, generator=generator).to(drawn.dtype) / 8)
    return drawn.to(DEVICE, WIDE.get(dtype, dtype) if _widens else dtype)


class Pair(Tensor):
    """Two tensors of one layout: what is done to the pair is done to both. The second's factor is `factor`."""

    a: Tensor
    b: Tensor

    @staticmethod
    def __new__(cls, a: Tensor, b: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls, a.shape, strides=a.stride(), storage_offset=a.storage_offset(), dtype=a.dtype, layout=a.layout,
            device=a.device, requires_grad=a.requires_grad,
        )  # fmt: skip

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a, self.b = a, b

    def __repr__(self, **_: Any) -> str:
        return f"Pair({self.a!r}, {self.b!r})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], context: None, size: Any, stride: Any) -> Pair:
        return Pair(parts["a"], parts["b"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (args, kwargs or {})
        first, second = (
            func(*chosen[0], **chosen[1])
            for chosen in (tree_map_only(Pair, lambda p, part=part: getattr(p, part), given) for part in ("a", "b"))
        )
        if isinstance(first, Tensor):
            made: Any = Pair(first, second)
        elif isinstance(first, (list, tuple)):
            made = type(first)(Pair(x, y) if isinstance(x, Tensor) else x for x, y in zip(first, second, strict=True))
        else:
            made = first
        return return_and_correct_aliasing(func, args, kwargs or {}, made)


class Weight(Tensor):
    """Integers of 8 bits and a scale, as weights are kept: transposed and viewed as integers, anything else reads
    `data · scale`. Nothing writes to it.
    """

    data8: Tensor
    scale: Tensor
    KEPT = ("detach", "t", "transpose", "view", "alias", "clone", "select", "slice", "expand", "permute", "unsqueeze")
    """Operators of which the result is one again."""

    @staticmethod
    def __new__(cls, data8: Tensor, scale: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls, data8.shape, strides=data8.stride(), storage_offset=data8.storage_offset(), dtype=scale.dtype,
            device=data8.device, requires_grad=False,
        )  # fmt: skip

    def __init__(self, data8: Tensor, scale: Tensor) -> None:
        self.data8, self.scale = data8, scale

    def __repr__(self, **_: Any) -> str:
        return f"Weight({self.data8!r}, {self.scale!r})"

    def __tensor_flatten__(self) -> tuple[list[str], str]:
        return ["data8", "scale"], "a weight"

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], context: str, size: Any, stride: Any) -> Weight:
        return Weight(parts["data8"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func._schema.is_mutable and isinstance(args[0], Weight):
            raise TypeError("a weight is not written to")
        if func.overloadpacket.__name__ in cls.KEPT and isinstance(args[0], Weight):
            made = Weight(func(args[0].data8, *args[1:], **named), args[0].scale)
            return return_and_correct_aliasing(func, args, named, made)
        args, named = tree_map_only(Weight, lambda one: one.data8.to(one.scale.dtype) * one.scale, (args, named))
        return func(*args, **named)


class Joined(Tensor):
    """Two tensors, one after the other along dim 0, as many rows as both: what is done to each number is done to both,
    anything else reads the whole. Nothing writes to it.
    """

    a: Tensor
    b: Tensor
    KEPT = ("detach", "alias", "clone", "neg", "abs", "sin", "relu", "exp", "_to_copy")
    """Operators of which the result is one again."""

    @staticmethod
    def __new__(cls, a: Tensor, b: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls, (a.shape[0] + b.shape[0], *a.shape[1:]), dtype=a.dtype, device=a.device, requires_grad=a.requires_grad
        )  # fmt: skip

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a, self.b = a, b

    def __repr__(self, **_: Any) -> str:
        return f"Joined({self.a!r}, {self.b!r})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], context: None, size: Any, stride: Any) -> Joined:
        return Joined(parts["a"], parts["b"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func._schema.is_mutable and isinstance(args[0], Joined):
            raise TypeError("what is joined is not written to")
        if func.overloadpacket.__name__ in cls.KEPT and isinstance(args[0], Joined):
            made = Joined(func(args[0].a, *args[1:], **named), func(args[0].b, *args[1:], **named))
            return return_and_correct_aliasing(func, args, named, made)
        args, named = tree_map_only(Joined, lambda one: torch.cat([one.a, one.b]), (args, named))
        return func(*args, **named)


class State(torch.nn.Module):
    """Parameters (what requires a gradient) and buffers, by name."""

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            if tensor.requires_grad:
                self.register_parameter(name, torch.nn.Parameter(tensor.detach()))
            else:
                self.register_buffer(name, tensor)


class Scaled(torch.autograd.Function):
    """x · factor, with a gradient that reads what was saved."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * ctx.factor + x * 0.25, None


class Slope(torch.autograd.Function):
    """2 · x, with a gradient that reads none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.saved_tensors[0].cos()


class Halves(torch.autograd.Function):
    """Two results, one of which has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        half = x / 2
        sign = x > 0
        ctx.mark_non_differentiable(sign)
        return half, sign

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Any:
        return gradient * 0.5


@functools.cache
def mesh() -> Any:
    """A mesh of this process alone."""
    from torch.distributed.device_mesh import init_device_mesh

    dist: Any = torch.distributed
    if not dist.is_initialized():
        backend = "gloo" if DEVICE == "cpu" else "nccl"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh(DEVICE, (1,))


def distributed(tensor: Tensor, placement: int | None) -> Tensor:
    """The tensor as a DTensor: whole, or cut along a dimension."""
    return DTensor.from_local(tensor, mesh(), [Replicate() if placement is None else Shard(placement)], run_check=False)


def window(base: Tensor, place: int, *sizes: int) -> Tensor:
    """So many numbers of a vector, from a place on, or from as far in as they fit: one after the other."""
    count = math.prod(sizes)
    return base[(start := place % (base.numel() - count + 1)) : start + count].view(sizes)


def strided(base: Tensor, place: int, sizes: tuple[int, ...], steps: tuple[int, ...]) -> Tensor:
    """Numbers of a vector, from a place on: along each axis so many, in such steps, or as many of them as there are."""
    place %= base.numel()
    room, kept = base.numel() - 1 - place, list[int]()
    for size, step in zip(sizes, steps, strict=True):
        kept.append(min(size, 1 + room // step) if step else size)
        room -= max(kept[-1] - 1, 0) * step
    return base.as_strided(kept, steps, place)


def dynamic(tensor: Tensor, axis: int) -> Tensor:
    """The tensor, whose size along an axis torch.compile is told to expect to change."""
    torch._dynamo.maybe_mark_dynamic(tensor, axis)
    return tensor


decomposed: Any = torch.ops.quantized_decomposed
"""The operators of exported programs that are quantised: torch.ao defines them when it is imported."""

QUANTISED = (
    "quantize_per_tensor", "dequantize_per_tensor", "quantize_per_channel", "dequantize_per_channel",
    "quantize_per_token", "choose_qparams", "choose_qparams_per_token_asymmetric",
)  # fmt: skip
"""Those of them that programs call."""

NAMES: dict[str, Any] = {
    "Halves": Halves, "Joined": Joined, "Pair": Pair, "Replicate": Replicate, "Scaled": Scaled, "Shard": Shard,
    "Slope": Slope, "State": State, "Weight": Weight, "checkpoint": checkpoint, "decomposed": decomposed,
    "distributed": distributed, "dynamic": dynamic, "fuzz": fuzz, "mapped": mapped, "numbers": numbers, "odd": odd,
    "running": running, "scan": scan, "strided": strided,
    "while_loop": while_loop, "window": window,
}  # fmt: skip
"""What a program may call by its own name, besides `torch` and `F`."""


def names() -> dict[str, Any]:
    """The global names of a program."""
    return {"torch": torch, "F": F, **NAMES}
