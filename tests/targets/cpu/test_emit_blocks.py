"""Blocks transposed in registers and strided loads: every size, against torch; and nothing outside is read."""

from __future__ import annotations

import ctypes
import mmap

import pytest
import torch

from cuesta.targets.cpu import jit, machine_code
from cuesta.targets.cpu.emit_blocks import load_block, store_block
from cuesta.targets.cpu.emit_index import IndexEmitter
from cuesta.targets.cpu.emit_strided import is_shuffled, load_strided
from cuesta.targets.cpu.vector_text import vector_type

DTYPES = {"i8": torch.int8, "i16": torch.int16, "float": torch.float32, "double": torch.float64}
WIDTHS = {"i8": 1, "i16": 2, "float": 4, "double": 8}
PITCH = 37
"""The elements from lane to lane."""


def function(name: str, lines: list[str]) -> str:
    body = "\n  ".join(lines)
    return f"define void @{name}(ptr %in, ptr %out, ptr %mask) {{\n  {body}\n  ret void\n}}\n"


def place(emitter: IndexEmitter, pointer: str, offset: int, element: str) -> str:
    return emitter.instruction(f"getelementptr {element}, ptr {pointer}, i64 {offset}")


def block(name: str, element: str, rows: int, lanes: int, *, stores: bool) -> str:
    """Transposes a block whose lanes are PITCH apart into rows of lanes, through `load_block`, or back."""
    emitter = IndexEmitter()
    kind, width = vector_type(element, lanes), WIDTHS[element]
    across = "%out" if stores else "%in"
    places = [place(emitter, across, lane * PITCH, element) for lane in range(lanes)]
    if stores:
        values = [
            emitter.instruction(f"load {kind}, ptr {place(emitter, '%in', row * lanes, element)}, align {width}")
            for row in range(rows)
        ]
        store_block(emitter, values, places, element, width)
    else:
        for row, value in enumerate(load_block(emitter, places, rows, element, width)):
            emitter.line(f"store {kind} {value}, ptr {place(emitter, '%out', row * lanes, element)}, align {width}")
    return function(name, emitter.levels[0].lines)


def call(loaded: machine_code.LoadedModule, name: str, *pointers: int) -> None:
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(loaded.symbols[name])(*pointers, *[0] * (3 - len(pointers)))


@pytest.mark.parametrize("element", DTYPES)
def test_blocks_are_transposed(element: str) -> None:
    sizes = [(rows, lanes) for rows in (2, 16) for lanes in (1, 2, 16)]
    text = "".join(
        block(f"{way}.{rows}.{lanes}", element, rows, lanes, stores=way == "store")
        for way in ("load", "store")
        for rows, lanes in sizes
    )
    names = [f"{way}.{rows}.{lanes}" for way in ("load", "store") for rows, lanes in sizes]
    loaded = machine_code.load_object(jit.compile_module(text, verify=True), names)
    for rows, lanes in sizes:
        far = torch.arange(lanes * PITCH).to(DTYPES[element])
        near = torch.zeros(rows, lanes, dtype=DTYPES[element])
        call(loaded, f"load.{rows}.{lanes}", far.data_ptr(), near.data_ptr())
        assert torch.equal(near, far.view(lanes, PITCH)[:, :rows].t())
        back = torch.full_like(far, 99)
        call(loaded, f"store.{rows}.{lanes}", near.data_ptr(), back.data_ptr())
        expected = torch.full_like(far, 99)
        expected.view(lanes, PITCH)[:, :rows] = near.t()
        assert torch.equal(back, expected)


def strided(name: str, element: str, stride: int, lanes: int, *, masked: bool) -> str:
    emitter = IndexEmitter()
    mask = None
    if masked:
        bits = emitter.instruction(f"load {vector_type('i8', lanes)}, ptr %mask, align 1")
        mask = emitter.instruction(f"icmp ne {vector_type('i8', lanes)} {bits}, zeroinitializer")
    value = load_strided(emitter, "%in", stride, lanes, element, WIDTHS[element], mask, 8)
    emitter.line(f"store {vector_type(element, lanes)} {value}, ptr %out, align {WIDTHS[element]}")
    return function(name, emitter.levels[0].lines)


@pytest.mark.parametrize("element", DTYPES)
def test_strided_loads_read_what_is_asked_for_and_nothing_outside(element: str) -> None:
    """The data ends where a page ends behind which nothing may be read; backwards, it begins where one begins."""
    cases = [(stride, lanes) for stride in (2, 3, 4, -1) for lanes in (2, 16)]
    text = "".join(
        strided(f"{'masked' if masked else 'plain'}.{stride}.{lanes}", element, stride, lanes, masked=masked)
        for stride, lanes in cases
        for masked in (False, True)
    )
    names = [f"{way}.{stride}.{lanes}" for stride, lanes in cases for way in ("plain", "masked")]
    loaded = machine_code.load_object(jit.compile_module(text, verify=True), names)
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for guard in (start, start + 2 * page):
        assert protect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    count = page // WIDTHS[element]
    data = torch.frombuffer(memory, dtype=DTYPES[element], count=count, offset=page)
    data.copy_(torch.arange(count))
    try:
        for stride, lanes in cases:
            first = lanes - 1 if stride == -1 else count - 1 - (lanes - 1) * stride
            expected = data[[first + stride * lane for lane in range(lanes)]]
            pointer = data.data_ptr() + first * WIDTHS[element]
            out = torch.zeros(lanes, dtype=DTYPES[element])
            call(loaded, f"plain.{stride}.{lanes}", pointer, out.data_ptr())
            assert torch.equal(out, expected)
            for wanted in (torch.arange(lanes) % 2 == 0, torch.arange(lanes) < lanes // 2, torch.arange(lanes) > lanes):
                mask = wanted.to(torch.int8)
                here = pointer
                if not wanted[lanes - 1]:  # what the mask leaves out may lie outside
                    here += (-1 if stride == -1 else stride) * WIDTHS[element]
                    expected = data[[min(max(first + stride * (lane + 1), 0), count - 1) for lane in range(lanes)]]
                call(loaded, f"masked.{stride}.{lanes}", here, out.data_ptr(), mask.data_ptr())
                assert torch.equal(out, torch.where(wanted, expected, 0))
    finally:
        del data
        for guard in (start, start + 2 * page):
            protect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 3)


def test_which_strides_are_shuffled() -> None:
    assert [stride for stride in range(-3, 8) if is_shuffled(stride)] == [-1, 2, 3, 4]
    assert not is_shuffled(None)
