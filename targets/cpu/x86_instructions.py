"""Instructions of AVX-512, and one of AVX2, that LLVM has no portable name for, on any number of lanes.

Each function takes a `VectorText` of f32 and cuts its values up into registers; a value narrower than a register is
padded. They give the same result for every number of lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuesta.targets.cpu.features import HostFeatures
from cuesta.targets.cpu.vector_text import VectorText, float_constant, vector_type

_NEEDED = ("avx512f", "avx512vl", "avx512dq")


def has_avx512(features: HostFeatures) -> bool:
    """Whether `reciprocal_estimate`, `scale` and `any_denormal` exist."""
    return features.triple.startswith("x86_64") and features.has(*_NEEDED)


def has_look_up(features: HostFeatures) -> bool:
    """Whether `look_up` exists."""
    return features.triple.startswith("x86_64") and features.has("avx2")


def has_bf16_rounding(features: HostFeatures) -> bool:
    """Whether `round_to_bf16` exists."""
    return has_avx512(features) and features.has("avx512bf16")


def reciprocal_estimate(text: VectorText, x: str) -> str:
    """1/x with a relative error below 2^-14, for normal x whose reciprocal is normal (vrcp14ps)."""

    def one(register: str, width: int, value: str) -> str:
        mask = "i16" if width == 16 else "i8"
        symbol = f"@llvm.x86.avx512.rcp14.ps.{32 * width}"
        text.declarations.add(f"declare {register} {symbol}({register}, {register}, {mask})")
        return text.line(f"call {register} {symbol}({register} {value}, {register} zeroinitializer, {mask} -1)")

    return _by_registers(text, [x], lambda register, width, values: one(register, width, values[0]))


def scale(text: VectorText, x: str, exponent: str) -> str:
    """x · 2^exponent in one rounding, for a whole-numbered float exponent (vscalefps)."""

    def one(register: str, width: int, values: list[str]) -> str:
        mask = "i16" if width == 16 else "i8"
        symbol = f"@llvm.x86.avx512.mask.scalef.ps.{32 * width}"
        types = [register, register, register, mask]
        arguments = [f"{register} {values[0]}", f"{register} {values[1]}", f"{register} zeroinitializer", f"{mask} -1"]
        if width == 16:
            types.append("i32")
            arguments.append("i32 4")  # the rounding mode in force
        text.declarations.add(f"declare {register} {symbol}({', '.join(types)})")
        return text.line(f"call {register} {symbol}({', '.join(arguments)})")

    return _by_registers(text, [x, exponent], one)


def look_up(text: VectorText, table: Sequence[float], index: str) -> str:
    """table[k] for the number k in the low 4 bits of each lane of `index`, a float; 16 entries (vpermps).

    A register of AVX2 holds half a table: both are looked up in by the low 3 bits, and the fourth chooses.
    """
    size = 16 if text.avx512 else 8
    symbol = "@llvm.x86.avx512.permvar.sf.512" if text.avx512 else "@llvm.x86.avx2.permps"
    parts = [table[start : start + size] for start in range(0, 16, size)]
    constants = [", ".join(f"float {float_constant(value, 'f32')}" for value in part) for part in parts]

    def one(register: str, width: int, values: list[str]) -> str:
        integers = f"<{width} x i32>"
        text.declarations.add(f"declare {register} {symbol}({register}, {integers})")
        places = text.line(f"bitcast {register} {values[0]} to {integers}")
        found = [text.line(f"call {register} {symbol}({register} <{bits}>, {integers} {places})") for bits in constants]
        if len(found) == 1:
            return found[0]
        # The bit becomes a sign, which is what the instruction that chooses asks.
        moved = text.line(f"shl {integers} {places}, splat (i32 28)")
        upper = text.line(f"icmp slt {integers} {moved}, zeroinitializer")
        return text.line(f"select <{width} x i1> {upper}, {register} {found[1]}, {register} {found[0]}")

    return _by_registers(text, [index], one, narrowest=size, widest=size)


def any_denormal(text: VectorText, x: str) -> str:
    """Whether some lane of x is denormal, as one i1 (vfpclassps)."""
    found: list[str] = []

    def one(register: str, width: int, values: list[str]) -> str:
        symbol = f"@llvm.x86.avx512.fpclass.ps.{32 * width}"
        boolean = vector_type("i1", width)
        text.declarations.add(f"declare {boolean} {symbol}({register}, i32)")
        denormal = text.line(f"call {boolean} {symbol}({register} {values[0]}, i32 32)")
        bits = text.line(f"bitcast {boolean} {denormal} to i{width}")
        found.append(text.line(f"icmp ne i{width} {bits}, 0"))
        return values[0]

    _by_registers(text, [x], one)
    result = found[0]
    for more in found[1:]:
        result = text.line(f"or i1 {result}, {more}")
    return result


def round_to_bf16(text: VectorText, x: str) -> str:
    """The bits (`i16`) of the nearest bf16, ties to even; denormals become zero (vcvtneps2bf16)."""

    def one(register: str, width: int, values: list[str]) -> str:
        narrow = f"<{width} x bfloat>"
        symbol = f"@llvm.x86.avx512bf16.cvtneps2bf16.{32 * width}"
        text.declarations.add(f"declare {narrow} {symbol}({register})")
        rounded = text.line(f"call {narrow} {symbol}({register} {values[0]})")
        return text.line(f"bitcast {narrow} {rounded} to <{width} x i16>")

    return _by_registers(text, [x], one, result="i16", narrowest=8)


def _by_registers(
    text: VectorText,
    values: list[str],
    one: Callable[[str, int, list[str]], str],
    result: str = "float",
    narrowest: int = 4,
    widest: int = 16,
) -> str:
    """Applies `one(register type, width, values)` to whole registers and joins the results."""
    width = max(narrowest, min(widest, 1 << (text.lanes - 1).bit_length()))
    register = vector_type("float", width)
    if text.lanes == width:
        return one(register, width, values)
    if text.lanes == 1:
        padded = [text.line(f"insertelement {register} zeroinitializer, float {value}, i64 0") for value in values]
        return text.line(f"extractelement <{width} x {result}> {one(register, width, padded)}, i64 0")
    parts: list[str] = []
    for start in range(0, text.lanes, width):
        lanes = [start + lane if start + lane < text.lanes else start for lane in range(width)]
        parts.append(
            one(register, width, [_shuffle(text, "float", text.lanes, value, "poison", lanes) for value in values])
        )
    # Joined two by two, then cut to size.
    while len(parts) > 1:
        if len(parts) % 2:
            parts.append("poison")
        joined = list(range(2 * width))
        parts = [
            _shuffle(text, result, width, first, second, joined)
            for first, second in zip(parts[0::2], parts[1::2], strict=True)
        ]
        width *= 2
    if width == text.lanes:
        return parts[0]
    return _shuffle(text, result, width, parts[0], "poison", list(range(text.lanes)))


def _shuffle(text: VectorText, element: str, width: int, first: str, second: str, lanes: list[int]) -> str:
    kind = vector_type(element, width)
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return text.line(f"shufflevector {kind} {first}, {kind} {second}, <{len(lanes)} x i32> <{mask}>")
