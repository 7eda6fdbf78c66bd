"""In which type a GPU holds what a scatter changes: `kernel.atomic` has sums of f32, f64 and wide integers, and
extremes of wide integers only.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from cuesta.dialects import elem
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.lowering.aten.builder import compute_type, is_integer
from cuesta.lowering.aten.scalar import Scalar, is_nan, where


@struct
class Held:
    """The type of memory that many change at a time, and how an element gets there and back."""

    type: Attribute
    hold: Callable[[Scalar], Scalar]
    give: Callable[[Scalar], Scalar]

    @classmethod
    def of(cls, kind: str, element: Attribute) -> Held:
        """How elements are held for changes of a kind.

        f16 and bf16 are added up in f32, which is rounded once. Integers of 8 and 16 bits lie in 32: sums wrap at the
        end, and come to the same. Extremes of floats are those of integers in the same order.
        """
        if kind == "assign_any":
            return cls(element, lambda value: value, lambda value: value)
        wide = compute_type(element)
        if is_integer(element):
            wide = i32 if element.width.data < 32 else element
        if kind == "sum" or kind_of(element) != "f":
            return cls(wide, lambda value: value.convert(wide), lambda value: value.convert(element))
        keys = elem.bits_type(wide)
        assert keys is not None
        width = keys.width.data
        least, most = -(1 << (width - 1)), (1 << (width - 1)) - 1

        def hold(value: Scalar) -> Scalar:
            """Integers in the order of the floats; NaN is beyond them all."""
            value = value.convert(wide)
            bits = value.builder.bitcast(value, keys)
            return where(is_nan(value), most if kind == "maximum" else least, _turned(bits, most))

        def give(key: Scalar) -> Scalar:
            return key.builder.bitcast(_turned(key, most), wide).convert(element)

        return cls(keys, hold, give)


def _turned(bits: Scalar, most: int) -> Scalar:
    """Of negative numbers the bits below the sign turned round: the more negative a float, the greater its bits."""
    return where(bits < 0, bits ^ most, bits)


__all__ = ["Held"]
