"""Small kernels written by hand, to call the pieces of the CPU target on tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch

from cuesta.targets.cpu import jit, machine_code
from cuesta.targets.cpu.features import HostFeatures
from cuesta.targets.cpu.vector_math import TWO_ARGUMENTS, MathFunction, math_function
from cuesta.targets.cpu.vector_text import vector_type

ELEMENTS = {"f32": "float", "f64": "double"}
DTYPES = {"f32": torch.float32, "f64": torch.float64}


def loop_over_vectors(name: str, source: str, target: str, lanes: int, body: str, inputs: int = 1) -> str:
    """`void name(ptr in0, ptr in1, ptr out, i64 n)`, whose body computes %r from %x (and %y), `lanes` at a time."""
    taken, given = vector_type(source, lanes), vector_type(target, lanes)
    second = f"  %py = getelementptr {source}, ptr %in1, i64 %i\n  %y = load {taken}, ptr %py, align 2\n"
    return f"""
define void @{name}(ptr %in0, ptr %in1, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %px = getelementptr {source}, ptr %in0, i64 %i
  %x = load {taken}, ptr %px, align 2
{second if inputs == 2 else ""}{body}
  %pr = getelementptr {target}, ptr %out, i64 %i
  store {given} %r, ptr %pr, align 2
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def run(name: str, llvm_text: str, inputs: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    loaded = machine_code.load_object(jit.compile_module(llvm_text, verify=True), [name])
    return call(loaded, name, inputs, dtype)


def call(
    loaded: machine_code.LoadedModule, name: str, inputs: Sequence[torch.Tensor], dtype: torch.dtype
) -> torch.Tensor:
    pointer = ctypes.c_void_p
    function = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_int64)(loaded.symbols[name])
    out = torch.empty(inputs[0].shape, dtype=dtype)
    function(inputs[0].data_ptr(), inputs[-1].data_ptr(), out.data_ptr(), inputs[0].numel())
    return out


def load_math_functions(
    names: Sequence[str], dtype: str, lanes: int, features: HostFeatures | None = None
) -> Callable[..., torch.Tensor]:
    """One module with all functions; the result is called as `f(name, *inputs)`. With `features`, they are written with
    the instructions of such a machine, which this one must have.
    """
    functions = {name: math_function(name, dtype, lanes, features) for name in names}
    loaded = machine_code.load_object(
        jit.compile_module(module_of(functions, dtype, lanes), verify=True), [f"run.{n}" for n in names]
    )

    def apply(name: str, *inputs: torch.Tensor) -> torch.Tensor:
        assert inputs[0].numel() % lanes == 0
        return call(loaded, f"run.{name}", inputs, DTYPES[dtype])

    return apply


def module_of(functions: dict[str, MathFunction], dtype: str, lanes: int) -> str:
    declarations: set[str] = set()
    parts: list[str] = []
    element = ELEMENTS[dtype]
    kind = vector_type(element, lanes)
    for name, function in functions.items():
        declarations |= function.declarations
        parts.append(function.definition)
        two = name in TWO_ARGUMENTS
        arguments = f"{kind} %x, {kind} %y" if two else f"{kind} %x"
        body = f"  %r = call {kind} {function.symbol}({arguments})"
        parts.append(loop_over_vectors(f"run.{name}", element, element, lanes, body, 2 if two else 1))
    return "\n".join([*sorted(declarations), *parts])
