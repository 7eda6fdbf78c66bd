"""The emitted kernels compile for `sm_90`, and to assembly for an AMD device, on a machine without a GPU."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

import cuesta
from cuesta.dialects import host
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.locations import print_text
from cuesta.targets.program import CudaError
from cuesta.targets.triton import driver
from cuesta.targets.triton.compilation import (
    TritonMissingError,
    amd_assembly,
    compile_kernel,
    module_text,
    require_triton,
)
from cuesta.targets.triton.emit_launches import SCRATCH
from tests.support.demo_models import make_models_small
from tests.support.gpu_cases import BACKWARD, cases
from tests.support.triton_interpreter import interpreted_cuda, on_cuda, parse, to_host
from tests.support.triton_kernels import HOPPER, texts_of
from tests.targets.triton.test_interpreted import GATHER, reduction

triton = pytest.importorskip("triton")

AMD = "gfx942"
OUR_FORMULAS = ("special", "bits", "integers int64")
"""Families of which a device's library has nothing, and nothing is left to eager."""


def compile_all(module: ModuleOp, *, amd: bool = True) -> int:
    """Compiles the kernels of a program; gives how many."""
    texts = texts_of(module)
    for text in texts:
        code = compile_kernel(text, HOPPER)
        assert code.binary[:4] == b"\x7fELF", text.source
        assert 0 <= code.parameters - len(text.signature) <= SCRATCH
        if amd:
            assert AMD in amd_assembly(text, AMD)
    return len(texts)


@pytest.mark.parametrize(
    "text", [reduction("argmax", "f32", (40, 33), 0), reduction("welford", "f32", (3, 20_000), 1), GATHER]
)
def test_one_kernel_of_a_kind(text: str) -> None:
    assert compile_all(on_cuda(parse(text))) >= 1


LONGEST = "special float64"
"""Ten seconds of Triton's; the interpreter runs it in `test_families.py`."""
LIKE_ANOTHER = ("float16", "int16", "int8")
"""Types of which families are compiled by `make test-thorough`: bf16 is computed in f32 like f16, and of integers the
widest and the narrowest that has no sign stay. The interpreter runs all of them.
"""
FOR_AMD = tuple(name for name in cases() if not name.endswith(("float64", "float16", "int32", "int16", "int8")))
"""For an AMD device: what has no type in its name, f32, and integers of 64 bits; all by `make test-thorough`."""


def of_family(name: str) -> tuple[list[ModuleOp], bool]:
    """Programs of a family, and whether there are kernels in them."""
    function, inputs = cases()[name]
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(function, backend="cuesta", fullgraph=True)(*inputs)
    return programs, name != "empty"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name == LONGEST or name.endswith(LIKE_ANOTHER) else ())
        for name in cases()
    ],
)
@pytest.mark.every(
    2, also=("unary float32", "softmaxes float32", "arg-reductions float32", "special float32", "bools", "indexing")
)
def test_families(name: str) -> None:
    programs, has_kernels = of_family(name)
    if has_kernels:
        assert sum(compile_all(program, amd=name in FOR_AMD) for program in programs) >= 1
    if name.startswith(OUR_FORMULAS):
        assert not any(isinstance(op, host.ExternOp) for program in programs for op in to_host(program).walk())


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in cases() if name not in FOR_AMD])
def test_other_families_for_amd(name: str) -> None:
    programs, _ = of_family(name)
    assert sum(compile_all(program) for program in programs) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    inputs = [torch.randn(17, 65, requires_grad=True), torch.randn(65, requires_grad=True)]
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(BACKWARD[name], backend="cuesta", fullgraph=True)(*inputs).sum().backward()
    assert len(programs) == 2
    assert sum(compile_all(program) for program in programs) >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dynamic", "amd"),
    [
        pytest.param("bert", False, False, marks=pytest.mark.thorough),
        pytest.param("llama", True, False, marks=pytest.mark.thorough),
        pytest.param("bert", True, False, marks=pytest.mark.thorough),
        pytest.param("bert", False, True, marks=pytest.mark.thorough),
        pytest.param("llama", False, True, marks=pytest.mark.thorough),
    ],
)
def test_models(name: str, dynamic: bool, amd: bool) -> None:
    assert kernels_of_training(name, dynamic=dynamic, amd=amd) >= 10


@pytest.mark.slow
def test_a_small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are larger by `make test-thorough`."""
    make_models_small(monkeypatch)
    assert kernels_of_training("bert", dynamic=False, amd=False) >= 10


def kernels_of_training(name: str, *, dynamic: bool, amd: bool) -> int:
    """Compiles the kernels of a training step."""
    from examples.models import MODELS

    model, inputs = MODELS[name].training()
    with interpreted_cuda(run_it=False) as programs:
        loss = torch.compile(model, backend="cuesta", dynamic=dynamic)(**inputs)[0]
        loss.backward()
    return sum(compile_all(program, amd=amd) for program in programs)


def test_a_persistent_kernel_loads_once_and_masks_only_where_needed() -> None:
    softmax = """
    func.func @main(%x : tensor<1024xROWxf32>) -> tensor<1024xROWxf32> {
      %y = loops.nest (%i : 1024) outs(%o : tensor<1024xROWxf32>) {
        %m = loops.reduce maximum (%j : ROW) {
          %a = loops.load %x[%i, %j] : tensor<1024xROWxf32>
          loops.yield %a : f32
        } : f32
        loops.for (%j : ROW) {
          %a = loops.load %x[%i, %j] : tensor<1024xROWxf32>
          %b = elem.sub %a, %m : f32
          loops.store %b, %o[%i, %j] : tensor<1024xROWxf32>
        }
      }
      func.return %y : tensor<1024xROWxf32>
    }"""
    (whole,) = texts_of(on_cuda(parse(softmax.replace("ROW", "64"))))
    assert whole.source.count("tl.load") == 1
    assert "mask" not in whole.source
    (partial,) = texts_of(on_cuda(parse(softmax.replace("ROW", "63"))))
    assert partial.source.count("tl.load") == 1
    assert "mask=mask" in partial.source
    (looped,) = texts_of(on_cuda(parse(softmax.replace("ROW", "65536"))))
    assert looped.source.count("tl.load") == 2
    assert "mask" not in looped.source


def test_the_text_names_the_line_and_stands_alone() -> None:
    (text,) = texts_of(on_cuda(parse(reduction("sum", "f32", (40, 30), 1))))
    assert text.source.startswith("# <test>:")
    namespace: dict[str, Any] = {}
    compile(module_text([text]), "<kernels>", "exec")
    assert not namespace


def test_a_kernel_that_has_no_text_is_left_to_its_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are written while kernels are compiled, before it is known which cannot be; that raised a KeyError."""
    from cuesta.code_generation import begin
    from cuesta.record import CompileRecord
    from cuesta.targets.triton import build

    def refuse(*_: Any) -> None:
        raise CuestaError(Diagnostic("no text"))

    monkeypatch.setattr(build, "emit_kernel", refuse)
    module = to_host(on_cuda(parse(reduction("sum", "f32", (4, 100), 1))))
    with pytest.warns(UserWarning, match="no text"):
        found = begin(module, CompileRecord("inference"))
    assert found.in_eager


def test_without_a_device_the_error_says_so(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    path = tmp_path / "program.mlir"
    path.write_text(print_text(on_cuda(parse(reduction("sum", "f32", (40, 30), 1)))))
    with pytest.raises(CudaError, match=r"a program for the device cuda:0 cannot run here: .*(CUDA|NVIDIA)"):
        cuesta.load(path)


def test_without_a_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", none)
    driver.driver.cache_clear()
    with pytest.raises(driver.NoDriverError, match=r"there is no CUDA driver \(libcuda.so.1: cannot open"):
        driver.launch_address()
    driver.driver.cache_clear()


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(TritonMissingError, match="pip install triton"):
        require_triton()
