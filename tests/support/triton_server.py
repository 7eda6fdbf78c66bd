"""Runs programs for CUDA devices on the CPU: their kernels through Triton's interpreter, everything else as it is.

A process of its own, because Triton decides when it is imported whether it interprets. Requests and answers are pickles
on its standard input and output, each after its length in 8 bytes.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pickle
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"
os.environ["CUESTA_COMPILE_WORKERS"] = "0"
if sys.path[0] == str(Path(__file__).parent):
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
from triton.tools.tensor_descriptor import TensorDescriptor

import cuesta
from cuesta.caching.entry import Entry
from cuesta.code_generation import generate
from cuesta.context import make_context
from cuesta.dialects.core.entry import entry_function, written_arguments
from cuesta.dialects.core.locations import CuestaParser
from cuesta.finishing import load_program
from cuesta.packages.container import packed, read_container, write_whole
from cuesta.packages.graph import Pass
from cuesta.packages.passes import PassReader, PassWriter
from cuesta.programs import arguments as argument_checks
from cuesta.record import CompileRecord
from cuesta.targets.host import runtime
from cuesta.targets.program import KernelText, MachineCode
from cuesta.targets.reference.wide_products import WIDE_PRODUCTS
from cuesta.targets.triton import build, compilation, device_functions, driver, emit_meet, quick_functions
from tests.support import whole_blocks
from tests.support.pickling import dumps
from tests.support.programs_together import Together

# Torch has these for a GPU alone.
cpu_kernels = torch.library.Library("aten", "IMPL")
for overload, function in WIDE_PRODUCTS.items():
    cpu_kernels.impl(overload.removeprefix("aten."), function, "CPU")

# Without it, `tl.device_assert` checks nothing.
interpreter_builder.options = dataclasses.replace(interpreter_builder.options, debug=True, sanitize_overflow=False)
whole_blocks.install()

POINTEES = {
    "*fp32": torch.float32, "*fp64": torch.float64, "*fp16": torch.float16, "*bf16": torch.bfloat16, "*i1": torch.bool,
    "*fp8e4nv": torch.float8_e4m3fn, "*fp8e5": torch.float8_e5m2,
    "*i8": torch.int8, "*i16": torch.int16, "*i32": torch.int32, "*i64": torch.int64,
    "*u8": torch.uint8, "*u16": torch.uint16, "*u32": torch.uint32, "*u64": torch.uint64,
}  # fmt: skip


interpreted_dot = interpreter_builder.create_dot


def dot_of_bf16(a: Any, b: Any, *rest: Any) -> Any:
    """The interpreter holds bf16 as its bits, and would multiply those: it is given f32, which holds every bf16."""
    if a.dtype == tl.bfloat16:
        a, b = (TensorHandle((one.data.astype(numpy.uint32) << 16).view(numpy.float32), tl.float32) for one in (a, b))
    return interpreted_dot(a, b, *rest)


interpreter_builder.create_dot = dot_of_bf16  # type: ignore[method-assign]


def from_float8(src: TensorHandle, dst_type: tl.dtype, rounding_mode: Any = None) -> TensorHandle:
    """The interpreter's own conversion takes NaN and infinities of floats of 8 bits for numbers."""
    dtype = POINTEES_OF_FLOAT8.get(str(src.dtype.scalar))
    if dtype is None:
        return fp_to_fp(src, dst_type, rounding_mode)
    wide = torch.from_numpy(numpy.ascontiguousarray(src.data)).view(dtype).float().numpy()
    return fp_to_fp(TensorHandle(wide, tl.float32), dst_type, rounding_mode)


POINTEES_OF_FLOAT8 = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}
fp_to_fp = interpreter_builder.create_fp_to_fp
interpreter_builder.create_fp_to_fp = from_float8


def cast(src: TensorHandle, dst_type: tl.dtype) -> TensorHandle:
    """The interpreter's own conversion takes denormal numbers of bf16 for others."""
    if (src.dtype.scalar, dst_type.scalar) == (tl.bfloat16, tl.float32):
        return TensorHandle((src.data.astype(numpy.uint32) << 16).view(numpy.float32), tl.float32)
    if (src.dtype.scalar, dst_type.scalar) == (tl.float32, tl.bfloat16):
        narrow = torch.from_numpy(numpy.array(src.data)).bfloat16().view(torch.uint16)
        return TensorHandle(narrow.numpy(), tl.bfloat16)
    return interpreted_cast(src, dst_type)


interpreted_cast = interpreter_builder.cast_impl
interpreter_builder.cast_impl = cast  # type: ignore[method-assign]


binary_op = interpreter_builder.binary_op


def comparing(lhs: TensorHandle, rhs: TensorHandle, op: Any) -> TensorHandle:
    """The interpreter gives what a comparison finds the type of what it compares, and splats it as such."""
    found = binary_op(lhs, rhs, op)
    return TensorHandle(found.data, tl.int1) if found.data.dtype == numpy.bool_ else found


interpreter_builder.binary_op = comparing


class Pointer:
    """What the interpreter takes for a tensor: it asks for no more than the address and the type."""

    def __init__(self, address: int, dtype: torch.dtype) -> None:
        self.address, self.dtype = address, dtype

    def data_ptr(self) -> int:
        return self.address


# Functions of libdevice that torch does not have under their name.
OTHER_NAMES = {"rint": torch.round, "pow": torch.pow, "fmod": torch.fmod, "fast_dividef": torch.div}


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


TOGETHER = Together()
Launcher = Callable[..., None]


@dataclasses.dataclass
class Encoded:
    """What a tensor descriptor was made of, from the innermost dimension on."""

    address: int
    sizes: list[int]
    strides: list[int]
    box: list[int]


def _argument(value: Any, kind: str) -> Any:
    if not isinstance(value, Encoded):
        return _implicit_cvt(Pointer(value, POINTEES[kind]) if kind in POINTEES else value)
    name, _, rest = kind.removeprefix("tensordesc<").partition("[")
    dtype, box = POINTEES[f"*{name}"], [int(size) for size in rest.removesuffix("]>").split(",")]
    assert value.box[::-1][:-1] == box[:-1] and box[-1] % value.box[0] == 0, (value, kind)
    strides = [stride // dtype.itemsize for stride in value.strides[::-1]]
    return _implicit_cvt(TensorDescriptor(Pointer(value.address, dtype), value.sizes[::-1], [*strides, 1], box))


def interpreted(kernel: KernelText) -> Launcher:
    """A function of the number of programs, and addresses and integers."""
    (function,) = compilation.functions_of(compilation.module_text([kernel]), [kernel.name])
    function.fn.__globals__["libdevice"] = Libdevice()
    kinds = [kind for _, kind in kernel.signature]

    def launch(programs: int, *values: int) -> None:
        arguments = [_argument(value, kind) for value, kind in zip(values, kinds, strict=True)]
        rewritten = function.rewrite()
        executor = GridExecutor(rewritten, function.arg_names, (programs,))
        scope = _patch_lang(rewritten)
        try:
            interpreter_builder.set_grid_dim(programs, 1, 1)
            if "functions.meet(" in kernel.source:
                TOGETHER.run(programs, lambda: executor.fn(*arguments))
            else:
                for program in range(programs):
                    interpreter_builder.set_grid_idx(program, 0, 0)
                    executor.fn(*arguments)
        finally:
            scope.restore()

    return launch


class Device:
    """What stands in for the CUDA driver: kernels are texts, and the function that launches one interprets it."""

    def __init__(self) -> None:
        self.kernels: list[tuple[KernelText, Launcher]] = []
        self.error: BaseException | None = None
        integers = [ctypes.c_uint] * 7
        pointer = ctypes.c_void_p
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, pointer, *integers, pointer, pointer, pointer)
        self.callback = prototype(self.launch)
        self.encoded: list[Encoded] = []
        integer = ctypes.c_int
        encoder = ctypes.CFUNCTYPE(
            integer, pointer, integer, integer, pointer, pointer, pointer, pointer, pointer, *[integer] * 4
        )
        self.encoder = encoder(self.encode)

    def encode(self, place: int, kind: int, rank: int, address: int, *rest: Any) -> int:
        """`cuTensorMapEncodeTiled`."""
        sizes, strides, box, ones, *_ = rest
        assert place % 64 == 0 and address % 16 == 0
        words = [[ctypes.c_int64.from_address(at + 8 * k).value for k in range(rank)] for at in (sizes, strides)]
        small = [[ctypes.c_int32.from_address(at + 4 * k).value for k in range(rank)] for at in (box, ones)]
        assert small[1] == [1] * rank and all(0 < size <= 256 for size in small[0])
        assert all(stride % 16 == 0 for stride in words[1][: rank - 1]) and all(size > 0 for size in words[0])
        ctypes.c_int64.from_address(place).value = len(self.encoded)
        self.encoded.append(Encoded(address, words[0], words[1][: rank - 1], small[0]))
        return 0

    def compile_kernel(self, kernel: KernelText, architecture: int, *, aligned: bool = True) -> MachineCode:
        kernel = kernel if aligned else kernel.pointers
        self.kernels.append((kernel, interpreted(kernel)))
        return MachineCode(str(len(self.kernels)), b"", 0, kernel.warps, 0)

    def load_function(self, code: MachineCode, device: int) -> int:
        return int(code.name)

    def launch(self, function: int, programs: int, *rest: Any) -> int:
        _, _, _, _, _, _, _stream, parameters, _ = rest
        text, launch = self.kernels[function - 1]
        values: list[Any] = []
        position = 0
        for _, kind in text.signature:
            place = ctypes.c_uint64.from_address(parameters + 8 * position).value
            if kind.startswith("tensordesc"):
                values.append(self.encoded[ctypes.c_int64.from_address(place).value])
                position += 2 * len(kind.split(","))
            else:
                values.append((ctypes.c_int32 if kind == "i32" else ctypes.c_int64).from_address(place).value)
            position += 1
        try:
            launch(programs, *values)
        except BaseException as error:  # noqa: BLE001  # raised again by `raising`, beyond the native code
            self.error = error
            return 1
        return 0


DEVICE = Device()


def refuse(error: int, doing: str = "") -> None:
    raise driver.CudaError(f"error {error} {doing}", error)


def raising(call: Callable[[], Any]) -> Any:
    """What a call gives, or raises: what the interpreter raised, where a launch was refused for that."""
    DEVICE.error = None
    try:
        return call()
    except driver.CudaError:
        if DEVICE.error is not None:
            raise DEVICE.error from None
        raise
    finally:
        DEVICE.kernels.clear()
        build._codes.clear()


def run(text: str, arguments: list[Any]) -> list[Any]:
    """Runs a program at the `host` level on CPU tensors; what it gives."""
    return run_and_write(text, arguments)[0]


def run_seeded(fault: str, text: str, arguments: list[Any]) -> list[Any]:
    """As `run`, while a fault of `seeded_faults.py` is in force."""
    from tests.support.seeded_faults import faults_named

    (found,) = faults_named(fault)
    with found.in_force():
        return run(text, arguments)


def run_and_write(text: str, arguments: list[Any]) -> tuple[list[Any], list[Any]]:
    """As `run`, and gives also what the arguments hold in the end that it writes to."""
    module = CuestaParser(make_context(), text, "<request>").parse_module()
    record = CompileRecord(kind="inference")
    generated = generate(module, record)
    call = load_program(generated.program, record, generated.in_eager)
    results = raising(lambda: list(call(list(arguments))))
    return results, [arguments[place] for place in written_arguments(entry_function(module))]


def run_packaged(text: str, arguments: list[Any], path: str) -> list[Any]:
    """As `run`, of a program that went through the file of a package: what is loaded is what was read."""
    module = CuestaParser(make_context(), text, "<request>").parse_module()
    record = CompileRecord(kind="inference")
    generated = generate(module, record)
    members: dict[str, bytes] = {}
    passes = PassWriter(members)
    manifest = {"pass": passes.add(0, "forward", Pass(Entry(generated.program, (), ())))}
    write_whole(Path(path), packed(manifest, members | passes.constants()))
    container = read_container(path)
    program = PassReader(container).take(container.manifest["pass"], "cpu").entry.program
    assert program is not generated.program
    call = load_program(program, record, generated.in_eager)
    return raising(lambda: list(call(list(arguments))))


def load(path: str, arguments: list[Any], options: dict[str, Any]) -> list[Any]:
    """Runs the program in a file, which `cuesta.load` reads, on CPU tensors."""
    return raising(lambda: list(cuesta.load(path, options=options)(*arguments)))


def interpret_kernel(kernel: KernelText, programs: int, arguments: list[Any]) -> list[Any]:
    """Runs one kernel on CPU tensors and integers; gives the arguments afterwards."""
    interpreted(kernel)(programs, *[a.data_ptr() if isinstance(a, torch.Tensor) else a for a in arguments])
    return arguments


def meet(seed: int | None, patience: int) -> None:
    """How programs that meet run from now on: the order of events, None for one after the other; how long one waits."""
    TOGETHER.seed = seed
    emit_meet.PATIENCE = patience


def install() -> None:
    """From here on programs for CUDA devices run on CPU tensors, their kernels through the interpreter."""
    build.compile_kernel = driver.compile_kernel = DEVICE.compile_kernel  # type: ignore[assignment]
    build.architecture_of = driver.architecture_of = lambda device: 90
    build.shared_memory_of = lambda device: 0
    driver.load_function = DEVICE.load_function
    driver.launch_address = lambda: ctypes.cast(DEVICE.callback, ctypes.c_void_p).value  # type: ignore[assignment, return-value]
    driver.encode_address = lambda: ctypes.cast(DEVICE.encoder, ctypes.c_void_p).value  # type: ignore[assignment, return-value]
    driver.check = refuse
    driver.current_stream = lambda device: 0
    on_cpu = runtime.allocator("cpu")
    runtime.allocator = lambda kind, index=None: on_cpu
    device_functions.libdevice = quick_functions.libdevice = Libdevice()
    argument_checks.device_of = lambda kind: "cpu"
    without_code = runtime._without_code
    runtime._without_code = lambda program, in_eager: without_code(  # type: ignore[assignment]
        dataclasses.replace(program, source=re.sub(r"'cuda:\d+'", "'cpu'", program.source)), in_eager
    )


def serve() -> None:
    install()
    actions = {
        "run": run,
        "run_seeded": run_seeded,
        "run_packaged": run_packaged,
        "run_and_write": run_and_write,
        "load": load,
        "kernel": interpret_kernel,
        "meet": meet,
        "seed": torch.manual_seed,
    }
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
        body = dumps(answer)
        sink.write(len(body).to_bytes(8, "little") + body)
        sink.flush()


if __name__ == "__main__":
    serve()
