"""Elementary functions for compiled code, as LLVM IR text on any number of lanes.

The common functions of f32 are expanded inline (`polynomials`), the others call SLEEF, which libtorch carries, or
libm for a single lane. An inline function gives the same result for every lane count, so the tail of a loop agrees
with its body.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from cuesta.targets.cpu import error_function, hyperbolic, polynomials
from cuesta.targets.cpu.features import HostFeatures, host_features
from cuesta.targets.cpu.libraries import SLEEF_SUFFIX, scalar_symbol, sleef_symbol
from cuesta.targets.cpu.vector_text import VectorText, vector_type
from cuesta.targets.cpu.x86_instructions import has_avx512, has_look_up


class MathFunction(NamedTuple):
    """A private function that a module defines once and calls by `symbol`.

    `declarations` are lines of IR that the definition needs (merge the sets of all functions of a module);
    `external_symbols` are the library functions among them.
    """

    symbol: str
    definition: str
    declarations: frozenset[str]
    external_symbols: frozenset[str]


TWO_ARGUMENTS = frozenset({"pow", "atan2", "hypot"})

_INLINE_F32: dict[str, Callable[[VectorText, str], str]] = {
    "acosh": hyperbolic.acosh,
    "asinh": hyperbolic.asinh,
    "cos": polynomials.cos,
    "cosh": hyperbolic.cosh,
    "erf": error_function.erf,
    "exp": polynomials.exp,
    "exp2": polynomials.exp2,
    "expm1": polynomials.expm1,
    "log": polynomials.log,
    "log10": polynomials.log10,
    "log1p": polynomials.log1p,
    "log2": polynomials.log2,
    "rsqrt": polynomials.rsqrt,
    "sigmoid": polynomials.sigmoid,
    "sin": polynomials.sin,
    "sinh": hyperbolic.sinh,
    "sqrt": polynomials.sqrt,
    "tan": polynomials.tan,
    "tanh": polynomials.tanh,
}
_INLINE_F64: dict[str, Callable[[VectorText, str], str]] = {"rsqrt": polynomials.rsqrt, "sqrt": polynomials.sqrt}
_LIBRARY_FOR_LARGE_ANGLES = frozenset({"sin", "cos", "tan"})

# SLEEF overflows early here (sinh of 710, asinh of 1e155): where a lane is beyond these, all go to libm.
_LARGEST_F64 = {"acosh": 1e150, "asinh": 1e150, "cosh": 700.0, "sinh": 700.0}

FUNCTIONS = frozenset(_INLINE_F32) | frozenset(SLEEF_SUFFIX)

INLINE_F32 = frozenset(_INLINE_F32) | {"hypot"}

# Largest error in units in the last place of f32 over all inputs, on machines with fused multiply-add.
ACCURACY_ULP: dict[str, float] = {
    "acosh": 3.0,
    "asinh": 3.0,
    "cos": 2.0,
    "cosh": 2.0,
    "erf": 5.5,  # 2.5 with AVX2
    "exp": 1.0,
    "exp2": 1.0,
    "expm1": 2.0,
    "hypot": 0.501,
    "log": 1.0,
    "log10": 1.5,
    "log1p": 1.5,
    "log2": 1.5,
    "rsqrt": 1.5,
    "sigmoid": 2.5,
    "sin": 2.0,
    "sinh": 2.5,
    "sqrt": 0.5,
    "tan": 3.5,
    "tanh": 2.5,
}
# The bound of SLEEF and libm, which serve everything else.
LIBRARY_ACCURACY_ULP = 2.5


def accuracy_ulp(name: str, dtype: str) -> float:
    """The largest error of a function in units in the last place of `dtype`.

    `lgamma` is an exception: near its zeros at negative arguments its error is absolute, and beyond 4e36 SLEEF gives
    infinity, as eager does.
    """
    return ACCURACY_ULP.get(name, LIBRARY_ACCURACY_ULP) if dtype == "f32" else LIBRARY_ACCURACY_ULP


def math_function(name: str, dtype: str, lanes: int, features: HostFeatures | None = None) -> MathFunction:
    """The function `name` (one of FUNCTIONS) on `lanes` values of `dtype` (f32 or f64); `float` itself for one lane.

    Shapes: one argument, two for the names in TWO_ARGUMENTS; all of the result's type.
    """
    return _math_function(name, dtype, lanes, features or host_features())


@functools.cache
def _math_function(name: str, dtype: str, lanes: int, features: HostFeatures) -> MathFunction:
    inline = (_INLINE_F32 if dtype == "f32" else _INLINE_F64).get(name)
    if inline is None and name == "sigmoid":
        return _sigmoid_f64(lanes, features)
    if name == "hypot" and dtype == "f32":
        return _hypot_f32(lanes)
    if inline is None and dtype == "f64" and name in _LARGEST_F64:
        return _near_or_far(name, lanes, features)
    if inline is None:
        return _library_function(name, dtype, lanes, features, "alwaysinline")
    text = VectorText(dtype, lanes, avx512=has_avx512(features), avx2=has_look_up(features))
    if name not in _LIBRARY_FOR_LARGE_ANGLES:
        result = inline(text, "%x")
        return _define(name, text, f"  ret {text.real} {result}", set())
    library = _library_function(name, dtype, lanes, features, "noinline cold")
    text.declarations.update(library.declarations)
    result = inline(text, "%x")
    _branch_on_large(text, polynomials.LARGEST_ANGLE)
    ending = (
        f"near:\n  ret {text.real} {result}\nfar:\n  %far.result = call {text.real} {library.symbol}({text.real} %x)\n"
    )
    function = _define(name, text, ending + f"  ret {text.real} %far.result", set(library.external_symbols))
    return function._replace(definition=library.definition + function.definition)


def _near_or_far(name: str, lanes: int, features: HostFeatures) -> MathFunction:
    """SLEEF's function of f64 where no lane is beyond what it can do, else libm's, lane by lane."""
    far = _library_function(name, "f64", lanes, features, "noinline cold", widths=())
    if lanes == 1 or not features.library_widths("f64"):
        return _library_function(name, "f64", lanes, features, "alwaysinline", widths=())
    near = _library_function(name, "f64", lanes, features, "alwaysinline", suffix=".near")
    text = VectorText("f64", lanes)
    text.declarations.update(near.declarations | far.declarations)
    _branch_on_large(text, _LARGEST_F64[name])
    for label, function in (("near", near), ("far", far)):
        text.statement(f"{label}:\n  %{label}.result = call {text.real} {function.symbol}({text.real} %x)")
        text.statement(f"  ret {text.real} %{label}.result")
    both = _define(name, text, "", set(near.external_symbols | far.external_symbols))
    return both._replace(definition=near.definition + far.definition + both.definition)


def _branch_on_large(text: VectorText, largest: float) -> None:
    size = text.intrinsic("fabs", "%x")
    far = text.compare("ogt", size, text.constant(largest))
    if text.lanes > 1:
        any_of = f"@llvm.vector.reduce.or.v{text.lanes}i1"
        text.declarations.add(f"declare i1 {any_of}({text.boolean})")
        far = text.line(f"call i1 {any_of}({text.boolean} {far})")
    text.statement(f'  br i1 {far}, label %far, label %near, !prof !{{!"branch_weights", i32 1, i32 100000}}')


def _symbol(name: str, dtype: str, lanes: int, suffix: str = "") -> str:
    return f"@cuesta.{name}.{dtype}x{lanes}{suffix}"


def _define(name: str, text: VectorText, ending: str, external: set[str]) -> MathFunction:
    symbol = _symbol(name, text.dtype, text.lanes)
    body = "\n".join([*text.lines, ending])
    header = f"define private {text.real} {symbol}({text.real} %x) alwaysinline nounwind {{"
    return MathFunction(symbol, f"{header}\n{body}\n}}\n", frozenset(text.declarations), frozenset(external))


def _sigmoid_f64(lanes: int, features: HostFeatures) -> MathFunction:
    """1 / (1 + e^-x) = (1 or e^-|x|) / (1 + e^-|x|)"""
    text = VectorText("f64", lanes)
    exp = _math_function("exp", "f64", lanes, features)
    argument = text.negate(text.intrinsic("fabs", "%x"))
    power = text.line(f"call {text.real} {exp.symbol}({text.real} {argument})")
    negative = text.compare("olt", "%x", text.constant(0.0))
    top = text.select(negative, power, text.constant(1.0))
    result = text.divide(top, text.add(power, text.constant(1.0)))
    text.declarations.update(exp.declarations)
    function = _define("sigmoid", text, f"  ret {text.real} {result}", set(exp.external_symbols))
    renamed = _symbol("sigmoid", "f64", lanes, ".exp")
    return function._replace(definition=(exp.definition + function.definition).replace(exp.symbol + "(", renamed + "("))


def _hypot_f32(lanes: int) -> MathFunction:
    """√(x² + y²) by way of f64, in which the squares are exact: rounded to the nearest but for one in 10⁹."""
    single, double = VectorText("f32", lanes), VectorText("f64", lanes)
    wide = [double.line(f"fpext {single.real} {argument} to {double.real}") for argument in ("%x", "%y")]
    square = double.multiply(wide[1], wide[1])
    root = double.intrinsic("sqrt", double.multiply_add(wide[0], wide[0], square))
    sizes = [double.intrinsic("fabs", value) for value in wide]
    infinity = double.constant(math.inf)
    infinite = [double.compare("oeq", size, infinity) for size in sizes]
    either = double.line(f"or {double.boolean} {infinite[0]}, {infinite[1]}")
    whole = double.select(either, infinity, root)
    result = double.line(f"fptrunc {double.real} {whole} to {single.real}")
    symbol = _symbol("hypot", "f32", lanes)
    header = f"define private {single.real} {symbol}({single.real} %x, {single.real} %y) alwaysinline nounwind {{"
    body = "\n".join([*double.lines, f"  ret {single.real} {result}"])
    return MathFunction(symbol, f"{header}\n{body}\n}}\n", frozenset(double.declarations), frozenset())


def _library_function(
    name: str,
    dtype: str,
    lanes: int,
    features: HostFeatures,
    attributes: str,
    *,
    widths: tuple[int, ...] | None = None,
    suffix: str = "",
) -> MathFunction:
    """Calls of SLEEF on registers of the machine, or of these widths, the last one padded; of libm for one lane, or
    where there are no widths.
    """
    text = VectorText(dtype, lanes)
    arguments = ["%x", "%y"] if name in TWO_ARGUMENTS else ["%x"]
    widths = features.library_widths(dtype) if widths is None else widths
    # The narrowest register that holds all lanes, else the widest there is.
    width = min((w for w in widths if w >= lanes), default=max(widths, default=1)) if lanes > 1 else 1
    callee = scalar_symbol(name, dtype) if width == 1 else sleef_symbol(name, dtype, width)
    register = vector_type(text.element, width)
    text.declarations.add(
        f"declare {register} @{callee}({', '.join([register] * len(arguments))}) nounwind willreturn memory(none)"
    )
    result = _call_by_parts(text, callee, arguments, width)
    symbol = _symbol(name, dtype, lanes, ".library" if "noinline" in attributes else suffix)
    parameters = ", ".join(f"{text.real} {argument}" for argument in arguments)
    header = f"define private {text.real} {symbol}({parameters}) {attributes} nounwind {{"
    body = "\n".join([*text.lines, f"  ret {text.real} {result}"])
    return MathFunction(symbol, f"{header}\n{body}\n}}\n", frozenset(text.declarations), frozenset({callee}))


def _call_by_parts(text: VectorText, callee: str, arguments: list[str], width: int) -> str:
    register = vector_type(text.element, width)

    def call(values: list[str]) -> str:
        return text.line(f"call {register} @{callee}({', '.join(f'{register} {value}' for value in values)})")

    if text.lanes == width:
        return call(arguments)
    result = "poison"
    if width == 1:
        for lane in range(text.lanes):
            parts = [text.line(f"extractelement {text.real} {argument}, i32 {lane}") for argument in arguments]
            result = text.line(f"insertelement {text.real} {result}, {text.element} {call(parts)}, i32 {lane}")
        return result
    for start in range(0, text.lanes, width):
        count = min(width, text.lanes - start)
        # A padded lane repeats the first one of its part: it must not be slow or trap.
        lanes = [start + lane if lane < count else start for lane in range(width)]
        parts = [_shuffle(text, text.lanes, argument, "poison", lanes) for argument in arguments]
        part = _shuffle(
            text, width, call(parts), "poison", [lane if lane < count else -1 for lane in range(text.lanes)]
        )
        if start == 0:
            result = part
        else:
            merged = [
                text.lanes + lane - start if start <= lane < start + count else lane for lane in range(text.lanes)
            ]
            result = _shuffle(text, text.lanes, result, part, merged)
    return result


def _shuffle(text: VectorText, width: int, first: str, second: str, lanes: list[int]) -> str:
    kind = vector_type(text.element, width)
    mask = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
    return text.line(f"shufflevector {kind} {first}, {kind} {second}, <{len(lanes)} x i32> <{mask}>")
