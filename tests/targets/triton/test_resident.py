"""Programs that do one piece after the other, as Triton kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from cuesta.targets.triton import emit_meet
from cuesta.targets.triton.emit_resident import names_bound, names_used, renamed, sorted_out
from tests.support.triton_interpreter import ask, on_cuda, parse, run
from tests.support.triton_kernels import assert_compiles, texts_of
from tests.targets.triton.test_meetings import SOFTMAX as MEETING

pytest.importorskip("triton")

slow = pytest.mark.slow  # the interpreter takes seconds for a kernel

ROWS = """
func.func @main(%x : tensor<ROWSx100xf32>) -> (tensor<ROWSx100xf32>) {
  %y = loops.nest (%i : ROWS) outs(%o : tensor<ROWSx100xf32>) schedule #loops.schedule<CHOICES> {
    %m = loops.reduce maximum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<ROWSx100xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<ROWSx100xf32>
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      loops.yield %c : f32
    } : f32
    loops.for (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<ROWSx100xf32>
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      %d = elem.div %c, %s : f32
      loops.store %d, %o[%i, %j] : tensor<ROWSx100xf32>
    }
  }
  func.return %y : tensor<ROWSx100xf32>
}"""


def rows(count: int, choices: str) -> str:
    return ROWS.replace("ROWS", str(count)).replace("CHOICES", choices)


@slow
@pytest.mark.parametrize("count", [1, 3, 4, 11])
@pytest.mark.parametrize("more", ["", ", reversed = 1", ", lanes = 32", ", rows = 2", ", stages = 3"])
def test_every_piece_is_done(count: int, more: str) -> None:
    x = torch.randn(count, 100)
    (y,) = run(on_cuda(parse(rows(count, f"resident = 4{more}"))), [x])
    torch.testing.assert_close(y, x.softmax(-1))


@pytest.mark.parametrize("more", ["", ", reversed = 1", ", lanes = 32", ", rows = 2", ", stages = 3", ", whole = 1"])
def test_it_compiles(more: str) -> None:
    assert_compiles(texts_of(on_cuda(parse(rows(300, f"resident = 4{more}")))))


def test_what_is_emitted() -> None:
    (text,) = texts_of(on_cuda(parse(rows(300, "resident = 4, stages = 3"))))
    assert "for piece in tl.range(tl.program_id(0), 300, tl.num_programs(0), num_stages=3):" in text.source


@pytest.fixture
def meetings() -> Iterator[Callable[[int | None, int], None]]:
    """Says how programs that meet run: the order of events (None: one after the other), and how long one waits."""
    yield lambda seed, patience: ask("meet", seed, patience)
    ask("meet", 0, emit_meet.PATIENCE)


def meeting(resident: int) -> str:
    return MEETING.replace("cooperative = 1", f"cooperative = 1, resident = {resident}")


@slow
@pytest.mark.parametrize("resident", [1, 3, 4, 8, 100])
def test_meetings_one_after_the_other(meetings: Callable[[int | None, int], None], resident: int) -> None:
    """Three rows of four parts: programs that are at parts of different rows, too, wait in vain at most once."""
    x = torch.randn(3, 101) * 10
    x[1, :40] = -torch.inf
    expected = x.softmax(-1), (x - x.amax(-1, keepdim=True)).exp().sum(-1)
    program = on_cuda(parse(meeting(resident)))
    enough = emit_meet.PATIENCE if resident % 4 == 0 else 9
    for seed, patience in ((0, enough), (None, 0), (None, 2), *((seed, seed % 4) for seed in range(1, 5))):
        meetings(seed, patience)
        for actual, wanted in zip(run(program, [x]), expected, strict=True):
            torch.testing.assert_close(actual, wanted)


def test_meetings_compile() -> None:
    """A part is told before the one before it is waited for; the two have registers for one tile each."""
    *_, text = texts_of(on_cuda(parse(meeting(8))))
    told = text.source.rindex("seen_next = functions.arrive(")
    assert told < text.source.index("met = functions.wait(") < text.source.index("functions.divide_by_shared(")
    assert text.source.count("tl.arange(0, 32)") == 1, "what is the same for every piece is made once"
    (alone,) = [one for one in texts_of(on_cuda(parse(MEETING))) if "functions.wait" in one.source]
    assert text.registers == 2 * alone.registers
    assert_compiles([text])


LINES = [
    "program = piece",
    "p = program % 4",
    "lanes = tl.arange(0, 32)",
    "mask = p * 32 + lanes < 101",
    "v = tl.load(x + p * 32 + lanes, mask=mask, other=float('mask'))",
    "a, b = v.mask, v == p",
    "for i in range(4):",
    "    w = tl.load(x + i)",
    "tl.store(x + p, v, mask=mask)",
]


def test_names_in_text() -> None:
    assert names_bound(LINES) == ["program", "p", "lanes", "mask", "v", "a", "b", "i", "w"]
    assert {"mask", "x", "v", "p"} <= names_used(LINES[4:6]) and "other" not in names_used(LINES)
    changed = renamed(LINES[4:6], {"mask": "m", "v": "u", "p": "q"})
    assert changed == ["u = tl.load(x + q * 32 + lanes, mask=m, other=float('mask'))", "a, b = u.mask, u == q"]


def test_what_is_made_once_and_what_for_each_piece() -> None:
    fixed, counted, read = sorted_out(LINES, "piece")
    assert fixed == [LINES[2]]
    assert counted == [LINES[0], LINES[1], LINES[3]]
    assert read == {"v", "a", "b", "i", "w"}
