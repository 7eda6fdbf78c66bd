"""What an extension is written with: the one module that code outside of Cuesta imports, besides `cuesta` itself.

    from cuesta.extend import Extension, exp, pointwise

    mine = Extension("mine", lowerings={"mylib::swish.default": pointwise(lambda x: x / (1.0 + exp(-x)))})
    torch.compile(model, backend="cuesta", options={"extensions": [mine]})

`docs/extending.md` shows each kind in a few lines; `examples/extensions/` has a tested program for each. What is not
here may change without notice. Laws are written with what is in `algebra`: `algebra.Law`, `algebra.variables`, ….
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import aten, elem, host, kernel, loops, sym
from cuesta.dialects.core.devices import DeviceTraits
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic, fail
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges
from cuesta.dialects.core.extension import After, Before, Extension, Extensions, active
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.operation import all_ops, replace_all_uses
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.core.rewriting import apply_patterns, no_match
from cuesta.dialects.elem.table import Approximation, Row
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, strides_of, tensor_type
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.extensions import extended
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, compute_type, decline
from cuesta.lowering.aten.builder import Rule as Lowering
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.pointwise import pointwise
from cuesta.lowering.aten.scalar import (
    Scalar,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    copysign,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    fmod,
    is_nan,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    nearest,
    power,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
    where,
)
from cuesta.lowering.schedule.choosers import Chooser, default_schedule
from cuesta.lowering.schedule.schedule import ParallelAxis, Schedule
from cuesta.targets.library import LibraryTarget
from cuesta.targets.program import BoundSite, NativeFunction, SharedLibrary
from cuesta.targets.target import Build, Code, Launch, Run, Target
from cuesta.text_rules import rules_of
from cuesta.transforms import algebra
from cuesta.transforms.fusion.pair import Move, Pair

if TYPE_CHECKING:
    from cuesta.laws import Proof

__all__ = [
    "After",
    "Approximation",
    "AtenCall",
    "Before",
    "BoundSite",
    "Build",
    "Chooser",
    "Code",
    "Context",
    "CuestaError",
    "CuestaParser",
    "DeviceTraits",
    "Diagnostic",
    "Dialect",
    "Extension",
    "Extensions",
    "InsertPoint",
    "Launch",
    "LibraryTarget",
    "LoopBuilder",
    "Lowering",
    "Machine",
    "ModuleOp",
    "ModulePass",
    "Move",
    "NativeFunction",
    "NestAnalysis",
    "Operation",
    "Pair",
    "ParallelAxis",
    "PatternRewriter",
    "RewritePattern",
    "Rewriter",
    "Row",
    "Run",
    "SSAValue",
    "Scalar",
    "Schedule",
    "SharedLibrary",
    "Target",
    "acos",
    "acosh",
    "active",
    "algebra",
    "all_ops",
    "apply_patterns",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "aten",
    "bf16",
    "ceil",
    "compute_type",
    "copysign",
    "cos",
    "cosh",
    "decline",
    "default_schedule",
    "device_of",
    "elem",
    "element_of",
    "entry_block",
    "entry_function",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "extended",
    "f16",
    "f32",
    "f64",
    "fail",
    "floor",
    "fmod",
    "function",
    "host",
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "identity",
    "is_nan",
    "is_tensor_type",
    "kernel",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "loops",
    "maximum",
    "minimum",
    "nearest",
    "no_match",
    "op_type_rewrite_pattern",
    "pointwise",
    "power",
    "print_text",
    "prove",
    "replace_all_uses",
    "rsqrt",
    "rules_of",
    "sigmoid",
    "sin",
    "sinh",
    "sizes_of",
    "sizes_of_value",
    "sqrt",
    "square",
    "strides_of",
    "sym",
    "symbol_ranges",
    "tan",
    "tanh",
    "tensor_type",
    "trunc",
    "where",
]


def function(name: str, *operands: Scalar | float) -> Scalar:
    """The scalar op `elem.NAME`, one of ours or of an extension's rows, in a formula: `function("fma", x, y, 1.0)`.

    Requires: one of the operands is a Scalar, which gives numbers their type.
    """
    typed = next(operand for operand in operands if isinstance(operand, Scalar))
    return typed.builder.elem(name, *(typed.like(operand) for operand in operands))


def prove(law: algebra.Law, *, effort: float = 1.0) -> Proof:
    """Proves a law and its rewrite, and says what was tried (`docs/algebra.md`); `effort` scales how many operands.

    Errors: `cuesta.laws.NotALawError`, an AssertionError, with the operands or the program that refute it.
    """
    from cuesta.laws import prove as run

    return run(law, effort=effort)
