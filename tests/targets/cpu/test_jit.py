from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from cuesta.targets.cpu import jit, vector_math
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


def call_add(loaded: jit.LoadedModule) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(loaded.address("add"))(40, 2)


def test_compile_load_and_call() -> None:
    assert call_add(jit.load_object(jit.compile_module(ADD, verify=True), ["add"])) == 42


def test_the_same_object_loads_twice_and_unloads_alone() -> None:
    code = jit.compile_module(ADD)
    first, second = jit.load_object(code, ["add"]), jit.load_object(code, ["add"])
    assert first.address("add") != second.address("add")
    del first
    gc.collect()
    assert call_add(second) == 42


def test_library_functions_are_found() -> None:
    loaded = jit.load_object(jit.compile_module(CALLS_LIBRARY), ["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.address("f"))(0.0) == 1.0


@pytest.mark.slow
def test_an_object_works_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "k.o"
    path.write_bytes(jit.compile_module(CALLS_LIBRARY))
    program = (
        "import ctypes, pathlib, sys; from cuesta.targets.cpu import jit;"
        f"m = jit.load_object(pathlib.Path({str(path)!r}).read_bytes(), ['f']);"
        "print(ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(m.address('f'))(0.0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1.0", done.stderr


def test_a_syntax_error_quotes_the_line() -> None:
    with pytest.raises(jit.MachineCodeError) as caught:
        jit.compile_module(ADD.replace("%b\n", "%nothing\n"))
    message = str(caught.value)
    assert ">     2 |   %c = add i64 %a, %nothing" in message
    path = next(line for line in message.splitlines() if line.strip().startswith("text:")).split(":", 1)[1].strip()
    assert "%nothing" in Path(path).read_text()
    Path(path).unlink()


def test_invalid_ir_is_refused_when_verified() -> None:
    branches = "define i64 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i64 1, 1\n  br label %b\n"
    with pytest.raises(jit.MachineCodeError, match="dominate") as caught:
        jit.compile_module(branches + "b:\n  ret i64 %x\n}\n", verify=True)
    Path(str(caught.value).split("text: ")[1].split("\n")[0]).unlink()


def test_an_unknown_function_is_a_clear_error() -> None:
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    code = jit.compile_module(text)
    with pytest.raises(jit.MachineCodeError, match="prints their names"):
        jit.load_object(code, ["f"])


def test_a_damaged_object_is_a_clear_error() -> None:
    with pytest.raises(jit.MachineCodeError):
        jit.load_object(b"not an object file at all", ["f"])


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
