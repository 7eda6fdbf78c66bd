"""Writing LLVM IR text for straight-line arithmetic on one scalar or vector type."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_INTEGER_OF = {"f32": "i32", "f64": "i64"}
_FLOAT_OF = {"f32": "float", "f64": "double"}


def vector_type(element: str, lanes: int) -> str:
    """`float` for one lane, `<8 x float>` for eight."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def float_constant(value: float, dtype: str, lanes: int = 1) -> str:
    """An LLVM constant that is exactly `value` rounded to `dtype`, in every lane."""
    if dtype == "f32":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return text if lanes == 1 else f"splat ({_FLOAT_OF[dtype]} {text})"


class VectorText:
    """Lines of LLVM IR that compute with `lanes` values of type f32 or f64.

    Every method appends one instruction and returns the name of its result. Values are names or constants; their
    type is `self.real` (floats), `self.integer` (integers of the same width) or `self.boolean`.
    """

    def __init__(self, dtype: str, lanes: int, *, avx512: bool = False, avx2: bool = False) -> None:
        self.dtype = dtype
        self.lanes = lanes
        self.avx512 = avx512 and dtype == "f32"
        """Whether the instructions of `x86_instructions` may be used."""
        self.has_look_up = (avx512 or avx2) and dtype == "f32"
        """Whether `x86_instructions.look_up` may be."""
        self.element = _FLOAT_OF[dtype]
        self.integer_element = _INTEGER_OF[dtype]
        self.real = vector_type(self.element, lanes)
        self.integer = vector_type(self.integer_element, lanes)
        self.boolean = vector_type("i1", lanes)
        suffix = dtype if lanes == 1 else f"v{lanes}{dtype}"
        self.intrinsic_suffix = suffix
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._count = 0

    def line(self, instruction: str) -> str:
        """Append `%n = instruction`."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def statement(self, text: str) -> None:
        """Append a line without a result: a label or a branch."""
        self.lines.append(text)

    # Constants

    def constant(self, value: float) -> str:
        """`value` in every lane."""
        return float_constant(value, self.dtype, self.lanes)

    def integer_constant(self, value: int) -> str:
        """The integer `value` in every lane."""
        return str(value) if self.lanes == 1 else f"splat ({self.integer_element} {value})"

    # Floats

    def add(self, a: str, b: str) -> str:
        """a + b"""
        return self.line(f"fadd {self.real} {a}, {b}")

    def subtract(self, a: str, b: str) -> str:
        """a - b"""
        return self.line(f"fsub {self.real} {a}, {b}")

    def multiply(self, a: str, b: str) -> str:
        """a · b"""
        return self.line(f"fmul {self.real} {a}, {b}")

    def divide(self, a: str, b: str) -> str:
        """a / b"""
        return self.line(f"fdiv {self.real} {a}, {b}")

    def negate(self, a: str) -> str:
        """-a"""
        return self.line(f"fneg {self.real} {a}")

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """a · b + c, in one rounding where the machine has the instruction."""
        return self.intrinsic("fmuladd", a, b, c)

    def intrinsic(self, name: str, *arguments: str) -> str:
        """A call of `llvm.name`, all of whose arguments and result are of the float type."""
        symbol = f"@llvm.{name}.{self.intrinsic_suffix}"
        self.declarations.add(f"declare {self.real} {symbol}({', '.join([self.real] * len(arguments))})")
        return self.line(f"call {self.real} {symbol}({', '.join(f'{self.real} {a}' for a in arguments)})")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """c0 + c1·x + c2·x² + …, by Horner's rule."""
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.multiply_add(result, x, self.constant(coefficient))
        return result

    def compare(self, predicate: str, a: str, b: str) -> str:
        """fcmp: `olt`, `oeq`, `uno`, …"""
        return self.line(f"fcmp {predicate} {self.real} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        """a where the condition holds, b elsewhere (floats)."""
        return self.line(f"select {self.boolean} {condition}, {self.real} {a}, {self.real} {b}")

    def at_most(self, x: str, limit: float) -> str:
        """The lesser of x and limit; NaN stays NaN. One instruction on x86."""
        bound = self.constant(limit)
        return self.select(self.compare("olt", bound, x), bound, x)

    def at_least(self, x: str, limit: float) -> str:
        """The greater of x and limit; NaN stays NaN. One instruction on x86."""
        bound = self.constant(limit)
        return self.select(self.compare("ogt", bound, x), bound, x)

    # Bits

    def bits(self, x: str) -> str:
        """The bits of a float as an integer."""
        return self.line(f"bitcast {self.real} {x} to {self.integer}")

    def real_from_bits(self, i: str) -> str:
        """The float with these bits."""
        return self.line(f"bitcast {self.integer} {i} to {self.real}")

    def integer_operation(self, name: str, a: str, b: str | int) -> str:
        """`add sub and or xor shl lshr ashr` on integers; b may be a Python int."""
        right = self.integer_constant(b) if isinstance(b, int) else b
        return self.line(f"{name} {self.integer} {a}, {right}")
