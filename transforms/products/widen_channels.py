"""Convolutions of few channels as such of four or eight: an element of a window is then a vector in memory.

%y = loops.extern pure "aten.convolution.default"(%x, %w, …) : (tensor<64x3x224x224xbf16>, tensor<64x3x7x7xbf16>) → …
→
%a = loops.nest (%n : 64, %c : 4, …) { … load %x[%n, %c, …] if %c < 3 else 0 }
%b = loops.nest (%o : 64, %c : 4, …) { … load %w[%o, %c, …] if %c < 3 else 0 }
%y = loops.extern pure "aten.convolution.default"(%a, %b, …) : (tensor<64x4x224x224xbf16>, tensor<64x4x7x7xbf16>) → …

A load of one element takes as many instructions as one of a vector, and goes through registers. `align-products` does
so where it is predicted that the convolution, in one nest with what is around it, is faster so, copies included.
"""

from __future__ import annotations

import math
from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops, sym
from cuesta.dialects.aten import flatten_call
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import device_of, element_type_of, sizes_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import remove
from cuesta.dialects.loops.writing import BodyWriter, load_only_where, type_of_positions
from cuesta.transforms.products.product_plans import SURE, plan_of
from cuesta.transforms.products.products import Product, static
from cuesta.transforms.products.tiles import CLOCK
from cuesta.transforms.products.windows import Windows

CHANNELS = 4
"""Channels become a multiple of so many: 8 bytes, which a lane copies to shared memory without registers.

Source: a definition: `cp.async` takes 4, 8 or 16 bytes, and of a vector of 16 half would be zeros.
"""


def widened(product: Product) -> Product | None:
    """The product that a convolution is with more channels, of which nothing is there yet: what is predicted of it can
    be asked. None for one whose channels are no few elements that lie side by side.
    """
    windows = product.windows
    if not isinstance(windows, Windows) or not windows.overlap or product.bits != 16 or windows.order[-1:] != (1,):
        return None
    channels = _more(windows.channels)
    if channels == windows.channels:
        return None
    wide = replace(windows, lengths=(*windows.lengths[:-1], channels), run=channels)
    return replace(product, windows=wide, producers={})


def gains_by_channels(product: Product, machine: Machine) -> str | None:
    """Why a convolution keeps its channels; None where more of them are predicted to be clearly faster."""
    wide = widened(product)
    if wide is None:
        return "its channels are no few that lie side by side"
    now, then = plan_of(product, machine), plan_of(wide, machine)
    if now is None or then is None:
        return "nothing surrounds it"
    copies = _copies(product, machine)
    least = min(now.together, now.apart)
    if (then.together + copies) * SURE > least:
        return f"predicted {then.together:.1f} µs with more channels, copies {copies:.1f}, and {least:.1f} with its own"
    return None


def widen_channels(product: Product) -> None:
    """Puts a convolution of more channels in the place of one. Requires: `widened` gives one."""
    call = product.call
    _, _, *rest = call.arguments_attr.positional
    operands, arguments = flatten_call([_copy(product, product.left), _copy(product, product.right), *rest])
    new = loops.ExternOp.of(call.overload, operands, arguments, [product.result.type], pure="pure" in call.properties)
    new.location = call.location
    new.results[0].name_hint = call.results[0].name_hint
    Rewriter.insert_op(new, InsertPoint.before(call))
    replace_all_uses(product.result, new.results[0])
    remove(call)


def _more(channels: int) -> int:
    """So many channels instead."""
    return -(-channels // CHANNELS) * CHANNELS


def _copies(product: Product, machine: Machine) -> float:
    """Microseconds that the copies of both factors take."""
    moved = 0.0
    for factor in (product.left, product.right):
        images, channels, *places = static(sizes_of(tensor_type_of(factor)))
        moved += machine.launch_bytes
        moved += images * (channels + _more(channels)) * math.prod(places) * byte_width(factor)
    return moved / (machine.memory_rate * machine.processors) / CLOCK


def _copy(product: Product, factor: SSAValue) -> SSAValue:
    """A nest that gives a factor with zeros behind its channels, channels last."""
    kind, call = tensor_type_of(factor), product.call
    first, channels, *places = static(sizes_of(kind))
    wide = _more(channels)
    strides = [wide]
    for size in reversed(places):
        strides.append(strides[-1] * size)
    of_image, *of_places = reversed(strides)
    made = tensor_type((first, wide, *places), element_type_of(factor), [of_image, 1, *of_places], device_of(kind))
    nest = loops.NestOp.build(sizes_of(made), [made])
    nest.location = call.location
    writer, variables = BodyWriter(nest.body, call), nest.induction_variables
    position = type_of_positions(wide)
    number = writer.add(loops.IndexOp.build(sym.dim(0), [variables[1]], position))
    there = writer.make("lt", number, writer.constant(channels, position))
    load = loops.LoadOp.build(factor, [sym.dim(k) for k in range(len(variables))], variables)
    writer.add(load)
    value = load_only_where(there, load)
    store = loops.StoreOp.build(value, nest.handles[0], [sym.dim(k) for k in range(len(variables))], variables)
    store.location = call.location
    nest.body.add_op(store)
    Rewriter.insert_op(nest, InsertPoint.before(call))
    return nest.results[0]


__all__ = ["CHANNELS", "gains_by_channels", "widen_channels", "widened"]
