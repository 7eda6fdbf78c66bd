"""Forms of a contraction: programs that do several tiles, and factors that tensor descriptors load."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.caching.entry import Entry, decode, encode
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import REFERENCE, Machine
from cuesta.dialects.texts.kernels import schedules_are_known
from cuesta.explain.triton_text import device_arithmetic
from cuesta.targets.program import ENCODE_SYMBOL, DeviceKernel, DeviceRun, KernelText, Program
from cuesta.targets.reference import random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.targets.triton.build import content_of
from cuesta.targets.triton.compilation import compile_kernel
from cuesta.targets.triton.emit_module import emit_module
from cuesta.testing import compare
from cuesta.transforms.products.forms import forms_of
from cuesta.transforms.products.tiles import Around, tiles_for
from tests.support.triton_interpreter import ask, on_cuda, parse, run, to_host
from tests.support.triton_kernels import kernels_in, kernels_of, texts_of
from tests.targets.triton.test_contractions import HOPPER, SMALL, fused, product, text_of, with_prologue

pytest.importorskip("triton")

FORMS: dict[str, dict[str, int]] = {
    "descriptors": {"descriptors": 1},
    "programs": {"programs": 3},
    "both": {"programs": 3, "descriptors": 1},
    "more programs than tiles": {"programs": 1000, "descriptors": 1},
}
CASES = {
    "whole tiles": product(32, 64, 32, "f16"),
    "odd sizes": product(37, 48, 56, "f16"),
    "two rows": product(2, 40, 24, "f16"),
    "transposed": product(33, 45, 48, "bf16", transposed=True),
    "batched": product(20, 40, 24, "f16", batch=3),
    "batched and transposed": product(17, 19, 40, "f16", batch=2, transposed=True),
    "one factor for the batch": product(17, 48, 40, "f16", batch=2).replace(
        "2x40x48xf16", "2x40x48xf16, #aten.layout<strides = [0, 48, 1]>"
    ),
    "f32": product(20, 40, 24, "f32"),
    "f32 in pieces": product(20, 40, 24, "f32"),
    "many tiles of a row": product(16, 200, 24, "bf16"),
    "a factor is computed": with_prologue(20, 40, 48),
}


def choices_of(name: str, form: str) -> dict[str, int]:
    precision = {"tf32": 1} if name == "f32" else {"bf16x6": 1} if name.startswith("f32") else {}
    return {**SMALL, **FORMS[form], **precision}


def summing(left: str, right: str, *, sizes: str = "%i : 32, %j : 64", points: str = "32", symbols: str = "") -> str:
    """Σ_k left[i, k] · right[k, j] by a nest whose schedule is to be `SCHEDULE`."""
    rows, columns = (one.split(" : ")[1] for one in sizes.split(", "))
    known = rows.isdigit() and columns.isdigit()
    kind = f"{rows}x{columns}xf32" if known else f"?x{columns}xf32, #aten.layout<sizes = [{rows}, {columns}]>"
    out = f"tensor<{kind}>"
    return f"""
func.func @main(%x : tensor<{left}>, %w : tensor<{right}>) -> {out} {symbols}{{
  %y = loops.nest ({sizes}) outs(%o : {out}) schedule #loops.schedule<SCHEDULE> {{
    %s = loops.reduce sum (%k : {points}) {{
      %a = loops.load %x[%i, %k] : tensor<{left}>
      %b = loops.load %w[%k, %j] : tensor<{right}>
      %c = elem.convert %a : f16 to f32
      %d = elem.convert %b : f16 to f32
      %p = elem.mul %c, %d : f32
      loops.yield %p : f32
    }} : f32
    loops.store %s, %o[%i, %j] : {out}
  }}
  func.return %y : {out}
}}"""


def scheduled(text: str, choices: dict[str, int]) -> str:
    return text.replace("SCHEDULE", ", ".join(f"{name} = {value}" for name, value in choices.items()))


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_numerics(name: str, form: str) -> None:
    if name == "a factor is computed" and "descriptors" in FORMS[form]:
        pytest.skip("no factor is an element as it lies; see below")
    text = CASES[name]
    inputs = random_inputs(parse(text))
    expected, truth = run_reference(parse(text), inputs), run_reference(parse(text), inputs, precise=True)
    (actual,) = run(fused(text, choices_of(name, form)), inputs)
    found = compare(name, actual, expected[0], truth[0], factor=3.0, ulps=8.0 if "bf16" in text else 4.0)
    assert found.passes, str(found)


def test_what_the_text_says() -> None:
    (text,) = texts_of(fused(CASES["odd sizes"], choices_of("odd sizes", "both")))
    assert text.source.count(".load([") == 2 and "flatten=True" in text.source
    assert [kind for _, kind in text.signature if kind.startswith("tensordesc")] == [
        "tensordesc<fp16[16, 16]>",
        "tensordesc<fp16[16, 32]>",
    ]
    assert "for number in tl.range(tl.program_id(0), 6, 3, flatten=True):" in text.source
    plain = text.pointers
    assert ".load([" not in plain.source and "tl.load(" in plain.source, "what unaligned pointers take"
    assert not any(kind.startswith("tensordesc") for _, kind in plain.signature)
    (alone,) = texts_of(fused(CASES["odd sizes"], SMALL))
    assert not alone.plain and alone.pointers is alone
    unsaid = {name: value for name, value in SMALL.items() if name != "descriptors"}
    (chosen,) = texts_of(fused(CASES["odd sizes"], unsaid))
    assert chosen.plain, "what a schedule does not say is chosen"
    (whole,) = texts_of(fused(product(32, 64, 32, "f16"), choices_of("", "descriptors")))
    assert "mask=" not in whole.source.split("tl.dot")[0], "what a descriptor reads has no mask"


def test_a_factor_of_two_factors_may_be_computed() -> None:
    """A descriptor is for the other one; where none lies as it is read, the text asks for what cannot be."""
    text = CASES["a factor is computed"]
    with pytest.raises(CuestaError, match="asks for descriptors, but no factor of a contraction is an element"):
        texts_of(fused(text, choices_of("", "descriptors")))


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        ("32x36xf16", "36x64xf16", r"lies \[36\] elements apart, from 0 on, which are no multiples of 16 bytes"),
        (
            "32x32xf16, #aten.layout<strides = [64, 2]>",
            "32x64xf16",
            "its elements do not lie side by side along either axis",
        ),
    ],
)
def test_where_strides_do_not_allow_descriptors_the_text_is_refused(left: str, right: str, why: str) -> None:
    points = left.split("x")[1]
    text = summing(left, right, points=points)
    for choices in ({**SMALL, "programs": 3}, SMALL):
        assert kernels_of(on_cuda(parse(scheduled(text, choices)))), "fine without"
    with pytest.raises(CuestaError, match=why):
        kernels_of(on_cuda(parse(scheduled(text, {**SMALL, "descriptors": 1}))))


@pytest.mark.slow
def test_sizes_that_only_the_call_knows() -> None:
    text = summing(
        "?x32xf16, #aten.layout<sizes = [s0, 32]>",
        "32x64xf16",
        sizes="%i : s0, %j : 64",
        symbols="attributes {sym.symbols = #sym.symbols<s0 in [2, 4096]>} ",
    )
    module = on_cuda(parse(scheduled(text, {**SMALL, "programs": 3})))
    (func,) = kernels_of(module)
    assert str(func.launched).count("min") == 1 and "3" in str(func.launched)
    x, w = torch.randn(50, 32).half(), torch.randn(32, 64).half()
    (y,) = run(module, [x, w])
    torch.testing.assert_close(y, (x.double() @ w.double()).float(), rtol=1e-4, atol=1e-4)
    with pytest.raises(CuestaError, match="how many elements there are only the call knows"):
        kernels_of(on_cuda(parse(scheduled(text, {**SMALL, "descriptors": 1}))))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["descriptors", "both"])
def test_memory_that_does_not_begin_at_a_multiple_of_16_bytes(form: str) -> None:
    """It is read by the code without descriptors; the interpreter's driver refuses to describe it."""
    text = scheduled(summing("32x32xf16", "32x64xf16"), {**SMALL, **FORMS[form]})
    for offset in (0, 1, 8):
        x, w = torch.randn(offset + 1024).half()[offset:].view(32, 32), torch.randn(32, 64).half()
        (y,) = run(on_cuda(parse(text)), [x, w])
        torch.testing.assert_close(y, (x.double() @ w.double()).float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_text_goes_in_again(form: str) -> None:
    """At `loops`, at `kernel` and at `host`, and gives the same kernel."""
    module = fused(CASES["batched and transposed"], choices_of("", form))
    assert print_text(parse(print_text(module))) == print_text(module)
    host = to_host(module)
    again = parse(print_text(host))
    again.verify()
    assert print_text(again) == print_text(host)
    (text,), (same,) = emit_module(kernels_in(host)).values(), emit_module(kernels_in(again)).values()
    assert content_of(text) == content_of(same), "but for the line that it stands in"
    assert pickle.loads(pickle.dumps(text)) == text
    assert all(f"{name} = {value}" in str(kernels_in(host)[0].schedule) for name, value in FORMS[form].items())


def test_a_text_of_a_kernel_that_asks_for_what_cannot_be() -> None:
    host = print_text(to_host(fused(CASES["odd sizes"], choices_of("", "both"))))
    assert host.count("programs = 3") == 1
    for old, new in (("programs = 3", "programs = 0"), ("descriptors = 1", "descriptors = 2")):
        found = [why for _, why in schedules_are_known(parse(host.replace(old, new)))]
        assert len(found) == 1 and new.split(" = ")[0] in found[0]
    moved = re.sub(r"(kernel\.load %\w+\[[^\]]*)\]", r"\1 + 1]", host, count=1)
    assert moved != host
    found = [why for _, why in schedules_are_known(parse(moved))]
    assert found and "multiples of 16 bytes" in found[0]


def test_devices_without_descriptors() -> None:
    text = text_of(fused(CASES["whole tiles"], choices_of("", "descriptors")))
    with pytest.raises(ValueError, match="tensor descriptors need sm_90, and this device is sm_80"):
        compile_kernel(text, 80)
    assert compile_kernel(text, 80, aligned=False).binary[:4] == b"\x7fELF"
    older = Machine.of({"architecture": 80})
    task = (4096, 4096, 4096), 1, 16
    (tile, *_) = tiles_for(*task, older)
    assert all("descriptors" not in form for form in forms_of(*task, older, tile))
    assert any("descriptors" in form for form in forms_of(*task, REFERENCE, tile))


def resources(text: KernelText, architecture: int = HOPPER) -> tuple[int, int]:
    """Bytes of shared memory, and of a thread's stack."""
    import subprocess
    import tempfile
    from pathlib import Path

    import triton

    code = compile_kernel(text, architecture)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code.binary)
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    (stack,) = re.findall(r"STACK:(\d+)", told.stdout + told.stderr)
    return code.shared, int(stack)


@pytest.mark.slow
@pytest.mark.parametrize(("element", "precision"), [("bf16", ""), ("f32", "tf32"), ("f32", "bf16x6")])
def test_forms_fit_the_device(element: str, precision: str) -> None:
    """Every form of the first tiles has room in shared memory; of 16 bits none keeps registers in memory."""
    sizes, bits, around = (1000, 4096, 1024), 16 if element == "bf16" else 32, Around(precision=precision)
    count = 0
    for tile in tiles_for(sizes, 1, bits, REFERENCE, around)[:2]:
        for form in forms_of(sizes, 1, bits, REFERENCE, tile, around):
            shared, stack = resources(text_of(fused(product(*sizes, element, transposed=True), form)))
            assert shared <= REFERENCE.shared, form
            assert element == "f32" or not stack, form
            count += 1
    assert count >= 2


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(128, 256), (256, 128), (64, 256)])
def test_forms_by_default_fit_the_device_where_more_bits_are_stored(sides: tuple[int, int]) -> None:
    """Of f32, and of f32 that is read: such a tile takes up to 4 bytes an element beside the next one's factors, which
    was not known: the kernel did not start.
    """
    tile = {"rows": sides[0], "columns": sides[1], "depth": 64, "warps": 8, "stages": 3, "group": 8}
    wide = product(4096, 4096, 256, "bf16").replace("%z = elem.convert %r : f32 to bf16", "%z = elem.add %r, %r : f32")
    stored = wide.replace("-> tensor<4096x4096xbf16> {\n  %m", "-> tensor<4096x4096xf32> {\n  %m")
    stored = stored.replace("outs(%o : tensor<4096x4096xbf16>)", "outs(%o : tensor<4096x4096xf32>)")
    stored = stored.replace(
        "store %z, %o[%i, %j] : tensor<4096x4096xbf16>", "store %z, %o[%i, %j] : tensor<4096x4096xf32>"
    )
    stored = stored.replace("return %y : tensor<4096x4096xbf16>", "return %y : tensor<4096x4096xf32>")
    for text in (stored, product(4096, 4096, 256, "bf16")):
        module = fused(text, tile)
        (kernel,) = kernels_in(to_host(module))
        assert kernel.schedule.choices["descriptors"] == 1
        assert resources(text_of(module))[0] <= REFERENCE.shared


@pytest.mark.parametrize("form", FORMS)
def test_the_arithmetic_is_that_of_the_contraction(form: str) -> None:
    name = "many tiles of a row"
    (func,), (plain,) = (kernels_of(fused(CASES[name], one)) for one in (choices_of(name, form), SMALL))
    assert device_arithmetic(func, {}) == device_arithmetic(plain, {}) > 2 * 16 * 200 * 24


def test_what_is_kept_of_a_kernel_with_descriptors() -> None:
    """In the cache and in packages: the code without them, too, for memory that does not begin as they need it."""
    text = text_of(fused(CASES["odd sizes"], choices_of("", "both")))
    kept = DeviceKernel(0, text, compile_kernel(text, HOPPER))
    run = DeviceRun("run", 0, 5, (0,))
    program = Program("", {}, (), (), None, device_kernels=(kept,), device_runs=(run,))
    found = decode("key", encode("key", Entry(program, (), ()))).program
    assert found == program and found.device_kernels[0].text.pointers == text.pointers
    assert ENCODE_SYMBOL in found.symbols
    without = replace(program, device_kernels=(DeviceKernel(0, text.pointers, kept.code),))
    assert ENCODE_SYMBOL not in without.symbols


def moved(tensor: Any, offset: int) -> torch.Tensor:
    """The same in memory that begins so many elements further on."""
    return torch.cat([tensor.new_zeros(offset), tensor.flatten()])[offset:].view(tensor.shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["odd sizes", "batched and transposed"])
@pytest.mark.parametrize("form", ["descriptors", "both"])
def test_a_package_has_what_makes_descriptors(name: str, form: str, tmp_path: Path) -> None:
    """What was read from the file runs as what was written to it, also where memory takes the code without."""
    module = fused(CASES[name], choices_of("", form))
    inputs = random_inputs(parse(CASES[name]))
    text = print_text(to_host(module))
    for offset in (0, 1):
        given = [moved(inputs[0], offset), *inputs[1:]]
        (found,) = ask("run_packaged", text, given, str(tmp_path / "p.cuesta"))
        (expected,) = run(module, given)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert ENCODE_SYMBOL.encode() in (tmp_path / "p.cuesta").read_bytes()


def batched(batch: int, rows: int, columns: int, points: int) -> str:
    """Σ_k left[q, i, k] · right[q, k, j] by a nest whose schedule is to be `SCHEDULE`."""
    left, right = f"tensor<{batch}x{rows}x{points}xf16>", f"tensor<{batch}x{points}x{columns}xf16>"
    out = f"tensor<{batch}x{rows}x{columns}xf32>"
    return f"""
func.func @main(%x : {left}, %w : {right}) -> {out} {{
  %y = loops.nest (%q : {batch}, %i : {rows}, %j : {columns}) outs(%o : {out}) schedule #loops.schedule<SCHEDULE> {{
    %s = loops.reduce sum (%k : {points}) {{
      %a = loops.load %x[%q, %i, %k] : {left}
      %b = loops.load %w[%q, %k, %j] : {right}
      %c = elem.convert %a : f16 to f32
      %d = elem.convert %b : f16 to f32
      %p = elem.mul %c, %d : f32
      loops.yield %p : f32
    }} : f32
    loops.store %s, %o[%q, %i, %j] : {out}
  }}
  func.return %y : {out}
}}"""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(2, 0, 40, 24), (2, 40, 0, 24), (2, 32, 64, 0), (0, 32, 32, 16), (1, 0, 64, 0)])
def test_sizes_of_0(sizes: tuple[int, int, int, int], form: str) -> None:
    """As in eager: nothing, or zeros. No descriptor says a size of 0, and a launch without programs needs none."""
    batch, rows, columns, points = sizes
    module = on_cuda(parse(scheduled(batched(*sizes), {**SMALL, **FORMS[form]})))
    x, w = torch.randn(batch, rows, points).half(), torch.randn(batch, points, columns).half()
    (y,) = run(module, [x, w])
    torch.testing.assert_close(y, torch.bmm(x, w).float(), rtol=0, atol=0)
    for text in texts_of(module):
        assert compile_kernel(text, HOPPER).binary[:4] == b"\x7fELF"
