from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from cuesta.targets.cpu import jit, machine_code, vector_math
from cuesta.targets.cpu.features import choose_cpu_name, choose_f32_lanes, describe, host_features
from tests.targets.cpu.kernels import module_of

ADD = """define i64 @add(i64 %a, i64 %b) {
  %c = add i64 %a, %b
  ret i64 %c
}
"""
CALLS_LIBRARY = """declare float @expf(float)
define float @f(float %x) {
  %y = call float @expf(float %x)
  ret float %y
}
"""


def call_add(loaded: machine_code.LoadedModule) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(loaded.symbols["add"])(40, 2)


def test_compile_load_and_call() -> None:
    assert call_add(machine_code.load_object(jit.compile_module(ADD, verify=True), ["add"])) == 42


def test_the_same_object_loads_twice_and_unloads_alone() -> None:
    code = jit.compile_module(ADD)
    first, second = machine_code.load_object(code, ["add"]), machine_code.load_object(code, ["add"])
    assert first.symbols["add"] != second.symbols["add"]
    del first
    gc.collect()
    assert call_add(second) == 42


def test_library_functions_are_found() -> None:
    loaded = machine_code.load_object(jit.compile_module(CALLS_LIBRARY), ["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.symbols["f"])(0.0) == 1.0


@pytest.mark.slow
def test_an_object_works_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "k.o"
    path.write_bytes(jit.compile_module(CALLS_LIBRARY))
    program = (
        "import ctypes, pathlib, sys; from cuesta.targets.cpu import machine_code;"
        f"m = machine_code.load_object(pathlib.Path({str(path)!r}).read_bytes(), ['f']);"
        "print(ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(m.symbols['f'])(0.0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1.0", done.stderr


def test_a_syntax_error_quotes_the_line() -> None:
    with pytest.raises(machine_code.MachineCodeError) as caught:
        jit.compile_module(ADD.replace("%b\n", "%nothing\n"))
    message = str(caught.value)
    assert ">     2 |   %c = add i64 %a, %nothing" in message
    path = next(line for line in message.splitlines() if line.strip().startswith("text:")).split(":", 1)[1].strip()
    assert "%nothing" in Path(path).read_text()
    Path(path).unlink()


def test_invalid_ir_is_refused_when_verified() -> None:
    branches = "define i64 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i64 1, 1\n  br label %b\n"
    with pytest.raises(machine_code.MachineCodeError, match="dominate") as caught:
        jit.compile_module(branches + "b:\n  ret i64 %x\n}\n", verify=True)
    Path(str(caught.value).split("text: ")[1].split("\n")[0]).unlink()


def test_an_unknown_function_is_a_clear_error() -> None:
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    code = jit.compile_module(text)
    with pytest.raises(machine_code.MachineCodeError, match="it calls no_such_function"):
        machine_code.load_object(code, ["f"])


def test_where_the_loader_does_not_know_the_format_llvm_links() -> None:
    code = jit.compile_module(CALLS_LIBRARY)
    loaded = jit.link_by_llvm(code, ["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.symbols["f"])(0.0) == 1.0


def test_a_damaged_object_is_a_clear_error() -> None:
    with pytest.raises(machine_code.MachineCodeError):
        machine_code.load_object(b"not an object file at all", ["f"])


def test_a_truncated_object_and_a_missing_function_are_clear_errors() -> None:
    code = jit.compile_module("define void @f() {\n  ret void\n}\n")
    with pytest.raises(machine_code.MachineCodeError, match="is damaged"):
        machine_code.load_object(code[: len(code) // 2], ["f"])
    with pytest.raises(machine_code.MachineCodeError, match="does not define g"):
        machine_code.load_object(code, ["f", "g"])


# Leaves holes of one page, each more than 4 GiB from the next, and nothing above them: where sections were mapped one
# by one, code and constants came to lie too far apart for a 32-bit distance, and LLVM ended the process.
SCATTERED_MEMORY = """
import ctypes, sys
from cuesta.targets.cpu import jit, machine_code
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PAGE, RESERVE, FIXED = 4096, 0x4022, 0x100000

def reserve(size, at=None):
    return libc.mmap(at, size, 0, RESERVE | (FIXED if at else 0), -1, 0)

code = jit.compile_module(sys.stdin.read())
machine_code.load_object(code, ["f"])
end = None
for line in open("/proc/self/maps").read().splitlines():
    low, high = (int(word, 16) for word in line.split()[0].split("-"))
    if end is not None and 0x700000000000 < end < low < 0x7FFFFFFFF000:
        reserve(low - end, end)
    end = high
holes = []
for _ in range(8):
    holes.append(reserve(3 * PAGE) + PAGE)
    reserve((6 << 30) + PAGE)
assert max(holes) - min(holes) > 2**35, holes
for hole in holes:
    libc.munmap(hole, PAGE)
module = machine_code.load_object(code, ["f"])
print(ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(module.symbols["f"])(1.0))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="makes its holes as Linux does")
def test_memory_full_of_holes() -> None:
    text = "define float @f(float %a) {\n  %b = fmul float %a, 0x3FF3333340000000\n  ret float %b\n}\n"
    command = [sys.executable, "-c", SCATTERED_MEMORY]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.stdout.strip().startswith("1.2"), done.stderr


def test_lanes_and_processor_follow_the_features() -> None:
    avx512 = frozenset({"avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl"})
    assert choose_f32_lanes(avx512) == 16
    assert choose_f32_lanes(frozenset({"avx2"})) == 8
    assert choose_f32_lanes(frozenset({"sse2"})) == 4
    assert choose_cpu_name("x86_64-pc-linux", avx512 | {"amx-tile"}) == "sapphirerapids"
    assert choose_cpu_name("x86_64-pc-linux", frozenset({"avx2", "sse4a"})) == "znver3"
    assert host_features().f32_lanes in (4, 8, 16)


def test_code_for_another_machine() -> None:
    flags: dict[str, bool] = dict.fromkeys(("avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"), True)
    features = describe("x86_64-unknown-linux-gnu", flags)
    assert features.library_widths("f64") == (8, 4)
    text = "define <16 x float> @f(<16 x float> %a) {\n  %b = fadd <16 x float> %a, %a\n  ret <16 x float> %b\n}\n"
    assert "zmm" in jit.assembly(text, features)


def test_every_math_function_compiles_for_a_wide_machine_and_for_a_plain_one() -> None:
    wide: dict[str, bool] = dict.fromkeys(("avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"), True)
    for flags, lanes, dtype in ((wide, 16, "f32"), (wide, 8, "f64"), ({"sse2": True}, 4, "f32")):
        features = describe("x86_64-unknown-linux-gnu", flags)
        names = sorted(vector_math.FUNCTIONS)
        functions = {name: vector_math.math_function(name, dtype, lanes, features) for name in names}
        text = module_of(functions, dtype, lanes)
        assert jit.compile_module(text, verify=True, features=features)
