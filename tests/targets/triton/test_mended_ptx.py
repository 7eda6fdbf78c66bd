"""Sums of two halves in one word, of which NVIDIA's assembler forgets the constant."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp

import cuesta
from benchmarks.device_arithmetic import machine_code_of
from cuesta.dialects.core.locations import print_text
from cuesta.targets.triton.mend_ptx import mended
from tests.support.triton_interpreter import on_cuda, parse
from tests.support.triton_kernels import texts_of

triton = pytest.importorskip("triton")

FORGOTTEN = re.compile(r"VIADD\.16x2 R\d+, R\d+(?:\.reuse)?, (?:0x0|RZ) ")


def kernel(op: str, constant: int, half: int) -> str:
    """PTX that compares one half of a sum."""
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{{
    .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .b16 %rs<4>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
    ld.global.b32 %r1, [%rd1];
    mov.b32 %r2, {constant};
    {op} %r3, %r1, %r2;
    mov.b32 {{%rs0, %rs1}}, %r3;
    setp.lt.u16 %p1, %rs{half}, 114;
    @%p1 st.global.b32 [%rd2], %r1;
    ret;
}}
"""


def assembled(ptx: str, folder: Path) -> str:
    (folder / "k.ptx").write_text(ptx)
    tools = triton.knobs.nvidia
    subprocess.run([tools.ptxas.path, "-arch=sm_90a", folder / "k.ptx", "-o", folder / "k.cubin"], check=True)
    command = [tools.cuobjdump.path, "-sass", folder / "k.cubin"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("op", ["add.s16x2", "add.u16x2"])
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("constant", [-1, 0x0003FFFE, 0x7FFF7FFF])
def test_the_constant_is_kept(op: str, half: int, constant: int, tmp_path: Path) -> None:
    ptx = kernel(op, constant, half)
    code = assembled(mended(ptx), tmp_path)
    assert "16x2" not in code
    number = (constant >> 16 * half) & 0xFFFF
    signed = number - 0x10000 if number > 0x7FFF else number
    # It is added, or what it is compared with is less by it.
    assert any(re.search(rf"\b{one:#x}\b", code) for one in (number, signed & 0xFFFFFFFF)), code


def test_what_is_mended_is_wrong_still(tmp_path: Path) -> None:
    """When it no longer is, `mend_ptx.py` is not needed for this assembler."""
    assert FORGOTTEN.search(assembled(kernel("add.s16x2", -1, 0), tmp_path))


@pytest.mark.parametrize("op", ["min.s16x2", "max.u16x2"])
def test_other_ops_keep_theirs(op: str, tmp_path: Path) -> None:
    ptx = kernel(op, 0x00050003, 0)
    assert mended(ptx) == ptx
    assert re.search(r"VIMNMX\.[SU]16x2 R\d+, R\d+, 0x30003,", assembled(ptx, tmp_path))


AVERAGE = """
func.func @main(%x : {0}) -> {0} {{
  %y = loops.nest (%n : {1}, %i : 57, %j : 114) outs(%o : {0})
      schedule #loops.schedule<along = 0, rows = 256, lanes = 16, warps = 16> {{
    %zero = elem.constant 0 : i64
    %rows = elem.constant 57 : i64
    %columns = elem.constant 114 : i64
    %nothing = elem.constant 0.0 : f32
    %s = loops.reduce sum (%k : 3, %l : 3) {{
      %a = loops.index [%i + %k - 1] : i64
      %b = elem.ge %a, %zero : i64
      %c = elem.lt %a, %rows : i64
      %d = elem.and %b, %c : i1
      %e = loops.index [%j + %l - 1] : i64
      %f = elem.ge %e, %zero : i64
      %g = elem.lt %e, %columns : i64
      %h = elem.and %f, %g : i1
      %inside = elem.and %d, %h : i1
      %v = loops.load %x[%n, %i + %k - 1, %j + %l - 1] if %inside else %nothing : {0}
      loops.yield %v : f32
    }} : f32
    loops.store %s, %o[%n, %i, %j] : {0}
  }}
  func.return %y : {0}
}}"""


def average(images: int) -> ModuleOp:
    """Sums of 3 by 3 with their edges, in a tile whose places LLVM takes two in a word."""
    return on_cuda(parse(AVERAGE.format(f"tensor<{images}x57x114xf32>", images)))


def test_windows_keep_their_edges() -> None:
    """They read behind the end of memory, where 304 channels of 16 images were averaged."""
    (text,) = texts_of(average(4864))
    assert not FORGOTTEN.search(machine_code_of(text))


@pytest.mark.gpu
def test_windows_are_right_on_a_gpu(tmp_path: Path) -> None:
    file = tmp_path / "average.mlir"
    file.write_text(print_text(average(64)))
    x = torch.randint(-8, 8, (64, 57, 114), generator=torch.Generator().manual_seed(0)).float()
    (actual,) = cuesta.load(file)(x.cuda())
    expected = F.conv2d(x[:, None], torch.ones(1, 1, 3, 3), padding=1)[:, 0]
    assert torch.equal(actual.cpu(), expected)
