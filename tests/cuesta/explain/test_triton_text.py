"""Arithmetic in the text of Triton kernels, against what a person counts of the machine code that there should be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import cuesta.targets.triton as target
from benchmarks.device_arithmetic import arithmetic_in
from cuesta.dialects.elem.table import TABLE
from cuesta.explain.triton_calls import is_known
from cuesta.explain.triton_text import UnreadableTextError, arithmetic_of
from cuesta.targets.program import KernelText

EXP, QUOTIENT = 10, 10
"""Of `device_arithmetic.py`."""


@dataclass(frozen=True)
class Case:
    """A kernel's body, and what each of its threads does. `x`, `y` and `o` point at f32, `n` at i32; `p` is the
    program's number, `v` are 1024 elements of `x`, and if there is an `r`, it is stored.
    """

    name: str
    body: str
    each: float
    warps: int = 4
    programs: int = 1


CASES = [
    # 1024 elements are 8 of each of 128 threads.
    Case("every element", "r = v * v + 1.0", 16),
    Case("a fused product is two", "r = tl.fma(v, v, 1.0)", 16),
    Case("what only compares, chooses or changes a sign", "r = tl.where(v > 0.5, tl.abs(v), v * -1.0)", 0),
    Case("maxima", "r = tl.maximum(v, 0.0, tl.PropagateNan.ALL)", 0),
    Case("a largest element", "m = tl.reduce(v, 0, functions.maximum)\ntl.store(o + p, m)", 0),
    Case("functions", "r = libdevice.exp(v) * 3.0", 8 * (EXP + 1)),
    Case("whole numbers", "i = tl.load(n + tl.arange(0, 1024))\ntl.store(n + tl.arange(0, 1024), i * i + 1)", 0),
    Case("numbers become floats", "i = tl.load(n + tl.arange(0, 1024))\nr = i.to(tl.float32) * 3.0", 8),
    # What is there twice.
    Case("a repeated expression", "a = v + 1.0\nb = v + 1.0\nr = a * b", 16),
    Case("repeated, the other way around", "a = v * 3.0\nb = 3.0 * v\nr = a + b", 16),
    Case("a difference is not", "w = v * v\nr = (v - w) * (w - v)", 8 * 4),
    Case("repeated in functions", "r = functions.divide(v, 3.0, 0.25) + functions.divide(v, 3.0, 0.25)", 8 * (5 + 1)),
    Case("what nobody needs", "w = libdevice.exp(v)\nr = v + 1.0", 8),
    Case("constants", "c = tl.full([], 2.0, tl.float32)\nr = v * (c * 3.0 + 1.0)", 8),
    Case("times one, minus nothing", "r = (v * 1.0) - 0.0", 0),
    # Halves of a pair are different values, though made of the same.
    Case("halves", "a, b = tl.split(tl.reshape(v, [512, 2]))\nr = tl.reshape(tl.join(a + 1.0, b + 1.0), [1024])", 8),
    Case(
        "compared with different numbers",
        "i = tl.load(n + tl.arange(0, 1024))\n"
        "w = tl.load(y)\na = tl.where(i == 1, v, w)\nb = tl.where(i == 2, v, w)\nr = (a * a) * (b * b)",
        8 * 3,
    ),
    # One number of a program is computed by all of its threads.
    Case("one number", "v = tl.load(x + p)\ntl.store(o + p, v * v + 1.0)", 2),
    Case("fewer elements than threads", "l = tl.arange(0, 32)\nv = tl.load(x + l)\ntl.store(o + l, v * v)", 1),
    Case("lanes that are no points", "l = tl.arange(0, 1024)\nv = tl.load(x + l, mask=l < 600)\nr = v * v", 8),
    # Of 1024 lanes 600 are points: both of a thread's vectors of four are computed, since some thread has points there.
    # Of 2048, with 600 points, a thread has four vectors, and two of them are no points in any thread.
    Case(
        "vectors of which no lane is a point",
        "l = tl.arange(0, 2048)\nm = l < 600\nw = tl.load(x + l, mask=m, other=1)\ntl.store(o + l, w * w, mask=m)",
        8,
    ),
    Case(
        "and sums of them, of which the rest is one number",
        "l = tl.arange(0, 2048)\nm = l < 600\nw = tl.load(x + l, mask=m, other=1)\n"
        "tl.store(o, tl.sum(tl.where(m, w * w, 0.0), 0))",
        8 + 7 + 1 + 5 + 2,
    ),
    # One division for all: a reciprocal, and for each a product and two fused.
    Case("a quotient by one number", "w = tl.load(y + p)\nr = functions.divide_by_shared(v, w)", QUOTIENT + 8 * 5),
    Case("and by one that is rounded", "w = tl.load(y + p)\nr = quick.divide_by_shared(v, w)", 1 + 8),
    Case("a quotient by many", "w = tl.load(y + tl.arange(0, 1024))\nr = tl.div_rn(v, w)", 8 * QUOTIENT),
    Case("an approximate quotient", "r = quick.sigmoid(v)", 8 * 5),
    Case("an approximation", "r = quick.exp(v)", 8 * 2),
    # Reductions: in a thread, between lanes, between warps.
    Case("a sum of one row", "s = tl.sum(v, 0)\ntl.store(o + p, s)", 7 + 5 + 2),
    Case("a sum of fewer than threads", "v = tl.load(x + tl.arange(0, 16))\ntl.store(o, tl.sum(v, 0))", 4),
    Case("a sum that is written twice", "s = tl.sum(v, 0)\nt = tl.sum(v, 0)\ntl.store(o + p, s * t)", 7 + 5 + 2 + 1),
    Case("a product of one row", "s = tl.reduce(v, 0, functions.multiply)\ntl.store(o + p, s)", 7 + 5 + 2),
    # Rows of 16 lie in four lanes, four elements in each; a thread has four rows.
    Case(
        "sums of short rows",
        "i = p * 64 + tl.arange(0, 64)[:, None]\nv = tl.load(x + i * 16 + tl.arange(0, 16)[None, :])\n"
        "s = tl.sum(v, 1, keep_dims=True)\ntl.store(o + i, s)",
        4 * 3 + 4 * 2,
        warps=2,
    ),
    Case(
        "and something of each of them",
        "i = p * 64 + tl.arange(0, 64)[:, None]\nv = tl.load(x + i * 16 + tl.arange(0, 16)[None, :])\n"
        "s = tl.sum(v, 1, keep_dims=True) * 3.0\ntl.store(o + i * 16 + tl.arange(0, 16)[None, :], v + s)",
        4 * 3 + 4 * 2 + 4 + 16,
        warps=2,
    ),
    # A sum that is only stored is made ready where it is stored, by one thread a row.
    Case(
        "and something of each of them that is only stored",
        "i = p * 64 + tl.arange(0, 64)[:, None]\nv = tl.load(x + i * 16 + tl.arange(0, 16)[None, :])\n"
        "s = tl.sum(v, 1, keep_dims=True) * 3.0\ntl.store(o + i, s)",
        4 * 3 + 4 * 2 + 1,
        warps=2,
    ),
    # Neighbours lie along the rows' axis: a thread has four rows and two columns, four lanes and all warps lie along
    # columns.
    Case(
        "sums of columns",
        "i = p * 32 + tl.arange(0, 32)[:, None]\nacc = tl.full([32, 64], 0.0, tl.float32)\n"
        "for j in range(0, 1024, 64):\n"
        "    acc = acc + tl.load(x + i + (j + tl.arange(0, 64)[None, :]) * 1024)\n"
        "tl.store(o + i, tl.sum(acc, 1, keep_dims=True))",
        16 * 8 + 4 + 4 * 2 + 3,
        warps=8,
    ),
    # Where rows begin anywhere, a thread has no neighbours: all lanes, and all warps, lie along a row.
    Case(
        "sums of rows that begin anywhere",
        "i = p * 4 + tl.arange(0, 4)[:, None]\nv = tl.load(x + i * 127 + tl.arange(0, 128)[None, :])\n"
        "s = tl.sum(v, 1, keep_dims=True)\ntl.store(o + i, s)",
        4 * 5 + 2,
    ),
    # What is said to be side by side has the lanes along it, but in no vectors, since no place is known to be even; all
    # warps lie along the other axis, and each thread has one row of 8 columns.
    Case(
        "columns of odd rows",
        "i = p * 32 + tl.arange(0, 32)[:, None]\n"
        "at = tl.max_contiguous(tl.arange(0, 64)[None, :] * 65 + (i // 65) * 4160 + (i % 65), [2, 1])\n"
        "s = tl.sum(tl.load(x + at), 1, keep_dims=True)\ntl.store(o + i, s)",
        7 + 3,
        warps=8,
    ),
    Case(
        "variances of parts",
        "m = tl.load(x + tl.arange(0, 32))\nc = tl.load(y + tl.arange(0, 32))\n"
        "a, b, n = tl.reduce((m, m, c), 0, functions.welford)\ntl.store(o, b)",
        5 * (1 + 1 + 1 + 2 + 2 + 3),
        warps=1,
    ),
    # 1024 elements of a row in 8 warps, four in each thread: as an H100 counts them, 64.578 for four rows.
    Case(
        "running sums",
        "i = (p * 4 + tl.arange(0, 4)[:, None]) * 1024 + tl.arange(0, 1024)[None, :]\n"
        "tl.store(o + i, tl.cumsum(tl.load(x + i), 1))",
        64.625,
        warps=8,
    ),
    # Loops.
    Case("rounds", "acc = v\nfor k in range(0, 5):\n    acc = acc * v\nr = acc", 8 * 5),
    Case("rounds that are written out", "r = v\nfor k in tl.static_range(3):\n    r = r + v", 8 * 3),
    Case("what a loop does not change", "r = v\nfor k in range(0, 5):\n    r = r + v * 3.0", 8 * 6),
    Case("what a loop loads", "r = v\nfor k in range(0, 5):\n    r = r + tl.load(y + k) * 3.0", 5 * 9),
    Case("rounds that differ", "r = v\nfor k in range(0, p):\n    r = r + v", 8 * 1.5, programs=4),
    Case("a loop in a loop", "r = v\nfor k in range(0, 3):\n    for l in range(0, k + 1):\n        r = r + v", 8 * 6),
    # Branches: what the program's number decides, and what data decide.
    Case(
        "a branch",
        "if p * 1024 + 1024 <= 3072:\n    r = v + 1.0\nelse:\n    r = v * v * v",
        10,
        programs=4,
    ),
    Case("a branch by data", "s = tl.load(y)\nif s > 0.5:\n    r = v + 1.0\nelse:\n    r = v * v * v", 8),
    Case("not before a branch", "r = v\nif p < 1:\n    r = v * 3.0", 2, programs=4),
    Case(
        "parts that nobody left",
        "met = functions.meet(n, p // 4, p % 4, 2, 4, 16)\nif met != 2:\n    tl.store(o, tl.load(x) * 3.0)\n"
        "if met == 1:\n    for q in range(4):\n        if functions.take(n, p // 4, q, 2, 4):\n"
        "            tl.store(o + q, tl.load(x + q) * 3.0)",
        1,
        programs=8,
    ),
    # Two sums of which one is chosen: one of them under the condition, where data decide it. Not where somebody needs
    # both, nor where the other one is a constant.
    Case(
        "one of two sums",
        "w = tl.load(y + tl.arange(0, 1024))\nr = tl.where(v > w, v * 0.75 + w, w * 0.5 - v)",
        8 * 3.5,
    ),
    Case("both of two sums", "a = v + 1.0\nb = v - 3.0\nr = tl.where(v > 1.0, a, b) * a * b", 8 * 4),
    Case("a product or the number itself", "r = tl.where(v > 1.0, v, v * 0.5)", 8 / 2),
    Case("a product or nothing", "r = tl.where(v > 1.0, v * v, 0.0)", 8),
    Case("a product where there is a point", "r = tl.where(tl.arange(0, 1024) < 600, v * v, v)", 8),
    # Atomics add in the memory, products of matrices in units of their own.
    Case("atomics", "tl.atomic_add(o + tl.arange(0, 1024), v, sem='relaxed')", 0),
    Case(
        "a product of matrices",
        "a = tl.load(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :])\n"
        "b = tl.load(y + tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :])\n"
        "tl.store(o + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], tl.dot(a, b))",
        2 * 16 * 32 * 64 / 128,
    ),
]


def kernel(body: str, warps: int = 4) -> KernelText:
    lines = ["p = tl.program_id(0)", "v = tl.load(x + p * 1024 + tl.arange(0, 1024))", *body.splitlines()]
    if "r = " in body:
        lines.append("tl.store(o + p * 1024 + tl.arange(0, 1024), r)")
    source = "@triton.jit\ndef k(x, y, o, n, s0):\n" + "".join(f"    {line}\n" for line in lines)
    signature = (("x", "*fp32"), ("y", "*fp32"), ("o", "*fp32"), ("n", "*i32"), ("s0", "i32"))
    return KernelText("k", source, signature, warps, asserts=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_threads_do(case: Case) -> None:
    found = arithmetic_of(kernel(case.body, case.warps), case.programs, {"s0": 7})
    assert found / (case.programs * case.warps * 32) == case.each


def test_a_symbol_is_what_it_was() -> None:
    text = kernel("r = v\nfor k in range(0, s0):\n    r = r + v")
    assert arithmetic_of(text, 1, {"s0": 7}) == 7 * 1024
    assert arithmetic_of(text, 0, {"s0": 7}) == 0


def test_of_a_large_grid_some_programs_are_looked_at() -> None:
    """Every second one does something, and the last: they are not picked by a step that would only meet those."""
    text = kernel("if p % 2 == 0:\n    tl.store(o + p, tl.load(x + p) * 3.0)")
    assert arithmetic_of(text, 1 << 22, {"s0": 1}) == pytest.approx(32 * 4 * (1 << 21), rel=0.01)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("for k in range(0, tl.load(n)):\n    pass", "depend on data"),
        ("r = tl.sort(tl.load(x + tl.arange(0, 16)))", "tl.sort"),
        ("while True:\n    pass", "while True"),
        ("tl.store(o, w)", "'w'"),
        ("r = [one for one in ()]", "one for one"),
    ],
)
def test_what_is_not_understood_is_said(body: str, said: str) -> None:
    with pytest.raises(UnreadableTextError, match=re.escape(said)):
        arithmetic_of(kernel(body), 1, {"s0": 1})


def test_every_call_that_kernels_are_written_with_is_known() -> None:
    folder = Path(next(iter(target.__path__)))
    texts = [one.read_text(encoding="utf-8") for one in folder.glob("emit_*.py")]
    texts += [str(row.triton) + str(row.approximations) for row in TABLE.values()]
    found = {name for text in texts for name in re.findall(r"\b(?:tl|functions|quick|libdevice)\.\w+(?=\()", text)}
    assert len(found) > 40
    assert sorted(name for name in found if not is_known(name)) == []


def test_what_machine_code_says_of_a_function() -> None:
    """Of two elements: what stands under a condition and its opposite is one of the two; under one alone, and behind
    the end, is for odd operands.
    """
    code = """
        /*0000*/                   FSETP.GEU.AND P0, PT, R0, 1, PT ;
        /*0010*/                   FMUL R1, R0, R0 ;
        /*0020*/                   FFMA R2, R1, R0, R0 ;
        /*0030*/               @P0 FADD R3, R2, 1 ;
        /*0040*/              @!P0 FMUL R3, R2, R2 ;
        /*0050*/                   FSETP.GT.AND P0, PT, R0, 1, PT ;
        /*0060*/                   FMUL R4, R5, R5 ;
        /*0070*/                   FFMA R6, R4, R5, R5 ;
        /*0080*/               @P0 FADD R7, R6, 1 ;
        /*0090*/              @!P0 FMUL R7, R6, R6 ;
        /*00a0*/                   FSETP.GT.AND P0, PT, R0, 1, PT ;
        /*00b0*/               @P0 FMUL R7, R7, R7 ;
        /*00c0*/               @P0 CALL.REL.NOINC 0x100 ;
        /*00d0*/                   EXIT ;
        /*0100*/                   FMUL R7, R7, R7 ;
        /*0110*/                   FMUL R7, R7, R7 ;
        /*0120*/                   RET.REL.NODEC R2 0x0 ;
    """
    assert arithmetic_in(code, 2) == 1 + 2 + 1
