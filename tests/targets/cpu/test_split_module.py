"""Modules that are compiled in parts, and archives of their objects."""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
import time
from collections.abc import Callable

import pytest
import torch
from torch import nn

from cuesta.targets.cpu import jit, machine_code, split_module
from cuesta.targets.cpu.object_archive import archive_of, members_of

HEAD = """\
declare double @exp(double)

; half of it, for whoever asks
define private double @cuesta.half(double %x) alwaysinline nounwind {
  %y = fmul double %x, 5.0e-1
  ret double %y
}
define internal double @cuesta.grown(double %x) noinline nounwind {
  %h = call double @cuesta.half(double %x)
  %y = call double @exp(double %h)
  ret double %y
}
"""
KERNEL = """\
define internal double @kernel_{number}(double %x) nounwind {{
  %r = call double @cuesta.grown(double %x)
  %y = fadd double %r, {number}.0
  ret double %y
}}
"""


def module(count: int) -> str:
    """So many kernels, and a function that adds up what they give."""
    lines, total = list[str](), "0.0"
    for number in range(count):
        lines += [f"%y{number} = call double @kernel_{number}(double %x)"]
        lines += [f"%t{number} = fadd double {total}, %y{number}"]
        total = f"%t{number}"
    body = "\n  ".join([*lines, f"ret double {total}"])
    kernels = "".join(KERNEL.format(number=number) for number in range(count))
    return f"{HEAD}{kernels}define double @run(double %x) nounwind {{\n  {body}\n}}\n"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small modules are split, too."""
    monkeypatch.setattr(split_module, "SMALLEST", 100)


def called(code: bytes, load: Callable[..., machine_code.LoadedModule] = machine_code.load_object) -> float:
    loaded = load(code, ["run"])
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.symbols["run"])(8.0)


def defined(text: str) -> set[str]:
    return set(re.findall(r"^define .*?@([\w.]+)", text, re.MULTILINE))


def test_a_small_module_stays_one() -> None:
    assert split_module.split_module(module(5), 4) == [module(5)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_each_function_is_in_one_part_and_the_library_wherever_it_is_used(most: int) -> None:
    parts = split_module.split_module(module(9), most)
    assert len(parts) == most
    kernels = [name for part in parts for name in defined(part) if not name.startswith("cuesta.")]
    assert sorted(kernels) == sorted(defined(module(9)) - {"cuesta.half", "cuesta.grown"})
    for part in parts:
        assert {"cuesta.half", "cuesta.grown"} <= defined(part)
        declared = set(re.findall(r"^declare .*@(kernel_\d+)", part, re.MULTILINE))
        assert declared == ({f"kernel_{k}" for k in range(9)} - defined(part) if "run" in defined(part) else set())


@pytest.mark.usefixtures("small")
def test_parts_are_linked_to_what_the_whole_gives() -> None:
    text = module(9)
    whole = called(jit.compile_module(text))
    assert whole == pytest.approx(9 * math.exp(4) + 36)
    codes = [jit.compile_module(part, verify=True) for part in split_module.split_module(text, 3)]
    archive = archive_of(codes)
    assert members_of(archive) == codes
    assert called(archive) == called(archive, jit.link_by_llvm) == whole


@pytest.mark.usefixtures("small")
def test_parts_that_are_compiled_side_by_side_are_those_that_are_compiled_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jit, "_processors", lambda: 4)
    texts = [module(count) for count in range(8, 20)]
    alone = [[jit.compile_module(part) for part in split_module.split_module(text, 4)] for text in texts]
    for _ in range(5):
        at_work = [jit.Compilation(text) for text in texts]
        assert [members_of(one.object_code()) for one in at_work] == alone


@pytest.mark.usefixtures("small")
def test_a_model_in_parts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, in forward and in backward."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 80), nn.GELU(), nn.LayerNorm(80), nn.Linear(80, 40), nn.Softmax(-1))
    x = torch.randn(30, 40)
    found: list[list[torch.Tensor]] = []
    sizes: list[int] = []
    load = machine_code.load_object

    def noted(code: bytes, symbols: list[str]) -> machine_code.LoadedModule:
        sizes.append(len(members_of(code)))
        return load(code, symbols)

    monkeypatch.setattr(machine_code, "load_object", noted)
    for processors in (1, 3):
        monkeypatch.setattr(jit, "_processors", lambda count=processors: count)  # pyright: ignore
        torch._dynamo.reset()
        model.zero_grad()
        compiled = torch.compile(model, backend="cuesta", options={"cache": False})
        y = compiled(x)
        (y * torch.arange(40)).sum().backward()
        found.append([y, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert 1 in sizes and 3 in sizes
    assert len(found[0]) == 7 and all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.usefixtures("small")
def test_a_line_that_does_not_parse_is_quoted_as_it_is_in_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_processors", lambda: 3)
    text = module(9).replace("%r, 7.0", "%nothing, 7.0")
    line = 1 + text[: text.index("%nothing")].count("\n")
    with pytest.raises(machine_code.MachineCodeError, match=rf">\s+{line} \|   %y = fadd double %nothing"):
        jit.Compilation(text)


def test_damaged_archives_are_clear_errors() -> None:
    archive = archive_of([jit.compile_module(module(1)), jit.compile_module(module(2).replace("run", "other"))])
    for damaged in (archive[:-1], archive[:100], archive.replace(b"`\n", b"''", 1), b"!<arch>\n" + archive[8:50]):
        with pytest.raises(machine_code.MachineCodeError, match="damaged"):
            machine_code.load_object(damaged, ["run"])
    twice = archive_of([jit.compile_module(module(1))] * 2)
    with pytest.raises(machine_code.MachineCodeError, match="two objects define the same"):
        machine_code.load_object(twice, ["run"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are those of POSIX")
def test_no_copy_of_the_process_is_made_while_a_part_is_compiled() -> None:
    inside, done = threading.Event(), list[float]()

    def work() -> None:
        with jit._working():  # pyright: ignore[reportPrivateUsage]
            inside.set()
            time.sleep(0.3)
            done.append(time.perf_counter())

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        os._exit(jit._workers.count)  # pyright: ignore[reportPrivateUsage]
    after = time.perf_counter()
    assert os.waitpid(child, 0)[1] == 0
    assert done and done[0] <= after
    thread.join()
