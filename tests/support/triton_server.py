"""Runs programs for CUDA devices on the CPU: their kernels through Triton's interpreter, everything else as it is.

A process of its own, because Triton decides when it is imported whether it interprets. Requests and answers are pickles
on its standard input and output, each after its length in 8 bytes.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"
if not sys.flags.safe_path:
    sys.path[0] = str(Path(__file__).parents[2])

import numpy
import torch
import triton.language as tl
from triton.runtime.interpreter import (
    GridExecutor,
    TensorHandle,
    _implicit_cvt,
    _patch_lang,
    interpreter_builder,
    interpreter_semantic,
)

from cuesta.context import make_context
from cuesta.dialects.core.locations import CuestaParser
from cuesta.targets.cpu.emit_module import emit_module as emit_llvm
from cuesta.targets.cpu.jit import compile_module, load_object
from cuesta.targets.host import runtime
from cuesta.targets.host.wrapper import WrapperWriter
from cuesta.targets.program import DeviceKernel, KernelText, MachineCode, NativeFunction, Program
from cuesta.targets.triton import compilation, device_functions, driver
from cuesta.targets.triton.emit_module import emit_module, module_text

# Without it, `tl.device_assert` checks nothing.
interpreter_builder.options = dataclasses.replace(interpreter_builder.options, debug=True, sanitize_overflow=False)

POINTEES = {
    "*fp32": torch.float32, "*fp64": torch.float64, "*fp16": torch.float16, "*bf16": torch.bfloat16, "*i1": torch.bool,
    "*i8": torch.int8, "*i16": torch.int16, "*i32": torch.int32, "*i64": torch.int64,
    "*u8": torch.uint8, "*u16": torch.uint16, "*u32": torch.uint32, "*u64": torch.uint64,
}  # fmt: skip


class Pointer:
    """What the interpreter takes for a tensor: it asks for no more than the address and the type."""

    def __init__(self, address: int, dtype: torch.dtype) -> None:
        self.address, self.dtype = address, dtype

    def data_ptr(self) -> int:
        return self.address


# Functions of libdevice that torch does not have under their name.
OTHER_NAMES = {"rint": torch.round, "pow": torch.pow, "fmod": torch.fmod}


def libdevice_function(name: str) -> Callable[..., Any]:
    function = OTHER_NAMES.get(name) or getattr(torch, name)

    def apply(*operands: Any) -> Any:
        values: list[Any] = [interpreter_semantic.to_tensor(operand) for operand in operands]
        block = max(values, key=lambda value: value.handle.data.size)
        arrays = [torch.from_numpy(numpy.ascontiguousarray(value.handle.data)) for value in values]
        result = function(*arrays).numpy().astype(block.handle.data.dtype)
        return tl.tensor(TensorHandle(result, block.handle.dtype), block.type)

    return apply


class Libdevice:
    """Triton's interpreter has no libdevice; torch's functions stand in, which are as accurate."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return libdevice_function(name)


def interpreted_launcher(kernel: DeviceKernel, code: MachineCode) -> driver.Launch:
    (function,) = compilation.functions_of(module_text([kernel.text]), [kernel.text.name])
    function.fn.__globals__["libdevice"] = Libdevice()
    kinds = [kind for _, kind in kernel.text.signature]

    def launch(programs: int, stream: int, *values: int) -> None:
        arguments = [
            _implicit_cvt(Pointer(value, POINTEES[kind]) if kind in POINTEES else value)
            for value, kind in zip(values, kinds, strict=True)
        ]
        rewritten = function.rewrite()
        executor = GridExecutor(rewritten, function.arg_names, (programs,))
        scope = _patch_lang(rewritten)
        try:
            interpreter_builder.set_grid_dim(programs, 1, 1)
            for program in range(programs):
                interpreter_builder.set_grid_idx(program, 0, 0)
                executor.fn(*arguments)
        finally:
            scope.restore()

    return launch


def run(text: str, arguments: list[Any]) -> list[Any]:
    """Runs a program at the `host` level on CPU tensors."""
    module = CuestaParser(make_context(), text, "<request>").parse_module()
    writer = WrapperWriter(module)
    wrapper = writer.write()
    texts = emit_module(writer.kernels.values())
    nothing = MachineCode("", b"", 0, 1, 0)
    kernels = tuple(
        DeviceKernel(name, device, texts[kernel], nothing) for name, (kernel, device) in wrapper.device_launches.items()
    )
    emitted = emit_llvm(writer.kernels, wrapper.runs)
    code = compile_module(emitted.text) if wrapper.runs else None
    loaded = None if code is None else load_object(code, [one.name for one in wrapper.runs])
    functions = tuple(NativeFunction(one.name, one.pointers + len(one.symbols)) for one in wrapper.runs)
    source = wrapper.source.replace("'cuda:0'", "'cpu'")
    call = runtime.build(Program(source, wrapper.overloads, functions, emitted.sites, code, kernels), loaded)
    return list(call(list(arguments)))


def interpret_kernel(kernel: KernelText, programs: int, arguments: list[Any]) -> list[Any]:
    """Runs one kernel on CPU tensors and integers; gives the arguments afterwards."""
    launch = interpreted_launcher(DeviceKernel("launch", 0, kernel, MachineCode("", b"", 0, 1, 0)), SimpleNamespace())  # type: ignore[arg-type]
    launch(programs, 0, *[a.data_ptr() if isinstance(a, torch.Tensor) else a for a in arguments])
    return arguments


def serve() -> None:
    driver.launcher = interpreted_launcher  # type: ignore[assignment]
    driver.current_stream = lambda device: 0
    device_functions.libdevice = Libdevice()
    actions = {"run": run, "kernel": interpret_kernel}
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    torch.set_num_threads(1)
    numpy.seterr(all="ignore")
    while header := source.read(8):
        action, *request = pickle.loads(source.read(int.from_bytes(header, "little")))
        try:
            answer = ("result", actions[action](*request))
        except Exception as error:  # noqa: BLE001  # the client raises it again
            answer = ("error", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        body = pickle.dumps(answer)
        sink.write(len(body).to_bytes(8, "little") + body)
        sink.flush()


if __name__ == "__main__":
    serve()
