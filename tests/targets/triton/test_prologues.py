"""What gives a factor of a product, computed where the product reads it: numbers of 4 bits out of bytes, rows that are
gathered by an index, expert by expert.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import host, kernel
from cuesta.testing import assert_close_to_float64
from cuesta.transforms.products import product_plans
from tests.support.triton_interpreter import InterpreterError, interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")

Case = tuple[Callable[..., Tensor], list[Tensor]]


def halves(w: Tensor) -> tuple[Tensor, Tensor]:
    return w & 15, (w >> 4) & 15


def in_groups(q: Tensor, s: Tensor, z: Tensor) -> Tensor:
    """(q − z) · s of rows in groups."""
    grouped = q.view(q.shape[0], s.shape[1], -1).to(s.dtype)
    return ((grouped - z[:, :, None]) * s[:, :, None]).view(q.shape)


def neighbours(x: Tensor, w: Tensor, s: Tensor, z: Tensor) -> Tensor:
    return x @ in_groups(torch.stack(halves(w), -1).view(w.shape[0], -1), s, z).t()


def ends(x: Tensor, w: Tensor, s: Tensor, z: Tensor) -> Tensor:
    return x @ in_groups(torch.cat(halves(w), -1), s, z).t()


def shifted(x: Tensor, w: Tensor, s: Tensor, z: Tensor) -> Tensor:
    places = torch.arange(0, 8, 4, dtype=torch.uint8)
    return x @ in_groups(((w[:, :, None] >> places) & 15).view(w.shape[0], -1), s, z).t()


def of_columns(x: Tensor, w: Tensor, s: Tensor, z: Tensor) -> Tensor:
    """The halves of a byte are two columns of the product: at each it is asked which one that is."""
    return x @ in_groups(torch.stack(halves(w), 1).view(-1, w.shape[1]), s, z).t()


def words(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    """As GPTQ keeps them: eight numbers of a column in a word of 32 bits."""
    places = torch.arange(0, 32, 4, dtype=torch.int32)
    q = ((w[:, None] >> places[:, None]) & 15).view(-1, w.shape[1])
    return x @ ((q - 8).to(x.dtype) * s)


def uneven_groups(x: Tensor, w: Tensor, s: Tensor, z: Tensor) -> Tensor:
    """Groups of 48, which no step of a tile is a part of, the last one shorter."""
    q = torch.stack(halves(w), -1).view(w.shape[0], -1)
    group = torch.arange(q.shape[1]) // 48
    return x @ ((q.to(x.dtype) - z[:, group]) * s[:, group]).t()


def gathered(x: Tensor, i: Tensor, w: Tensor) -> Tensor:
    return functional.silu(x[i] @ w)


def rows_alone(x: Tensor, i: Tensor, w: Tensor) -> Tensor:
    return x[i] @ w


def of_experts(x: Tensor, i: Tensor, w: Tensor) -> Tensor:
    """Rows for each of the experts, with a matrix of its own."""
    return x[i] @ w


def chosen_experts(x: Tensor, e: Tensor, w: Tensor) -> Tensor:
    """Blocks of rows, each with the expert that it was given."""
    return x @ w[e]


def behind_tokens(x: Tensor, i: Tensor, w: Tensor) -> Tensor:
    """Every token stands there twice."""
    return x[i // 2] @ w


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape).bfloat16()


def packed(rows: int = 19, columns: int = 40, points: int = 128, group: int = 32) -> list[Tensor]:
    torch.manual_seed(0)
    groups = -(-points // group)
    w = torch.randint(0, 256, (columns, points // 2), dtype=torch.uint8)
    s, z = (torch.rand(columns, groups) / 8).bfloat16(), torch.randint(0, 16, (columns, groups)).bfloat16()
    return [drawn(rows, points), w, s, z]


def packed_along_columns() -> list[Tensor]:
    torch.manual_seed(0)
    w = torch.randint(0, 256, (24, 64), dtype=torch.uint8)
    return [drawn(19, 64), w, (torch.rand(48, 2) / 8).bfloat16(), torch.randint(0, 16, (48, 2)).bfloat16()]


def in_words() -> list[Tensor]:
    torch.manual_seed(0)
    return [drawn(19, 128), torch.randint(-(1 << 31), (1 << 31) - 1, (16, 40), dtype=torch.int32), drawn(40) / 8]


CASES: dict[str, Case] = {
    "neighbours": (neighbours, packed()),
    "ends": (ends, packed()),
    "shifted": (shifted, packed()),
    "columns": (of_columns, packed_along_columns()),
    "words": (words, in_words()),
    "uneven groups": (uneven_groups, packed(group=48)),
    "one group": (neighbours, packed(group=128)),
    "rows": (gathered, [drawn(23, 64), torch.tensor([0, 22, -1, -23, 3, 3, *range(20)]), drawn(64, 32)]),
    "rows of 32 bits": (gathered, [drawn(23, 64), torch.arange(20, dtype=torch.int32), drawn(64, 32)]),
    "experts": (of_experts, [drawn(23, 64), torch.randint(0, 23, (3, 20)), drawn(3, 64, 32)]),
    "chosen experts": (chosen_experts, [drawn(5, 18, 64), torch.tensor([2, 0, 2, 1, 2]), drawn(3, 64, 32)]),
    "tokens": (behind_tokens, [drawn(23, 64), torch.randperm(46), drawn(64, 32)]),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are one kernel with what is around them, whatever that is predicted to take."""
    monkeypatch.setattr(product_plans, "SURE", 0.0)


def calls_of(program: ModuleOp) -> list[str]:
    return [op.overload for op in to_host(program).walk() if isinstance(op, host.ExternOp)]


@pytest.mark.slow  # the interpreter takes a second for a kernel
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", CASES)
def test_it_is_computed_where_it_is_read(name: str) -> None:
    function, inputs = CASES[name]
    with interpreted_cuda() as programs:
        compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)
        assert_close_to_float64(compiled, function, inputs, gradients=False, ulps=8.0)
    (program,) = dict.fromkeys(programs)
    assert calls_of(program) == []
    kernels = [op for op in to_host(program).walk() if isinstance(op, kernel.FuncOp)]
    assert len(kernels) == (2 if name == "uneven groups" else 1)  # which group a point is of, computed before


LARGE: dict[str, Case] = {
    "neighbours": (neighbours, packed(16, 8192, 4096, 128)),
    "ends": (ends, packed(16, 8192, 4096, 128)),
    "rows": (gathered, [drawn(23, 2048), torch.arange(20) % 3, drawn(2048, 1024)]),
}
"""As the estimates like them."""


def text_of(name: str) -> str:
    function, inputs = LARGE[name]
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)(*inputs)
    return next(text.source for text in texts_of(programs[0]) if "tl.dot(" in text.source)


@pytest.mark.parametrize("name", ["neighbours", "ends"])
def test_halves_are_two_products_that_share_a_load(name: str) -> None:
    """No lane asks which half it has; the bytes, and the scale and the zero that both have, are read once."""
    source = text_of(name)
    assert source.count("tl.dot(") == 2
    assert source.count(" in range(") == 1
    assert "tl.where(" not in source
    assert source.count("tl.load(") == (5 if name == "neighbours" else 7)


def test_a_step_of_one_group_reads_its_scale_once_a_column() -> None:
    """128 points of a group are 64 bytes: so deep is a step, and the address of its scale has no lane of the points."""
    source = text_of("neighbours")
    assert ", 64):" in source
    scales = [line for line in source.splitlines() if "tl.load(" in line and " * 32 " in line]
    assert len(scales) == 2
    assert all("lanes" not in line and "broadcast" not in line for line in scales)


def test_an_index_is_read_and_checked_before_the_loop() -> None:
    before, _, loop = text_of("rows").partition(" in range(")
    assert before.count("tl.device_assert(") == 1
    assert "device_assert" not in loop
    assert loop.count("tl.load(") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_machine_code_for_hopper(name: str) -> None:
    function, inputs = LARGE[name]
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)(*inputs)
    assert_compiles(texts_of(programs[0]))


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_an_index_out_of_range_is_an_error() -> None:
    _, (x, _, w) = CASES["rows"]
    with interpreted_cuda(), pytest.raises(InterpreterError, match="index out of bounds"):
        torch.compile(gathered, backend="cuesta", fullgraph=True, dynamic=False)(x, torch.tensor([0, 1, 23] * 6), w)


def drawn_case(number: int) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """A matrix whose rows, or columns, are put together of parts of a narrower one, beside, in blocks or at the end."""
    draw = random.Random(number)
    count, block, blocks = draw.choice([2, 2, 3, 4, 8]), draw.choice([1, 4, 16]), draw.choice([1, 2, 4])
    along_points, turned, gathers = draw.random() < 0.7, draw.random() < 0.5, draw.random() < 0.3
    batch = (2,) if draw.random() < 0.3 else ()
    packed, other = block * blocks * 4, draw.choice([17, 32, 40])
    w = torch.randint(0, 256, (*batch, other, packed), generator=torch.Generator().manual_seed(number)).byte()
    s = drawn(*batch, other, 1)
    points = packed * count if along_points else other
    x = drawn(*batch, 19, points)
    rows = torch.randint(-19, 19, (21,), generator=torch.Generator().manual_seed(number))

    def function(x: Tensor, w: Tensor, s: Tensor, rows: Tensor) -> Tensor:
        parts = [(w >> part) & 3 for part in range(count)]
        shape = (*w.shape[:-1], w.shape[-1] // block, block)
        q = torch.stack([part.view(shape) for part in parts], -2).reshape(*w.shape[:-1], -1)
        d = (q.to(x.dtype) - 1) * s
        factor = d.transpose(-1, -2) if along_points else d
        if turned and not batch:
            factor = factor + drawn_bias[: factor.shape[-1]]
        taken = x[..., rows, :] if gathers else x
        return torch.tanh(taken @ factor)

    drawn_bias = drawn(512)
    return function, [x, w, s, rows]


@pytest.mark.slow
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("number", [*range(6), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(6, 60))])
def test_drawn_prologues(number: int) -> None:
    function, inputs = drawn_case(number)
    with interpreted_cuda(run_it=False, lowered=True):
        compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)
        assert_close_to_float64(compiled, function, inputs, gradients=False, ulps=8.0)


def two_readers(x: Tensor, i: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    rows = x[i]
    return rows, rows @ w


NEAR_MISSES: dict[str, tuple[Callable[..., object], list[Tensor]]] = {
    "no rows": (gathered, [drawn(23, 64), torch.zeros(0, dtype=torch.int64), drawn(64, 32)]),
    "one row, which all are": (rows_alone, [drawn(1, 64), torch.zeros(17, dtype=torch.int64), drawn(64, 32)]),
    "rows that others read": (two_readers, [drawn(23, 64), torch.arange(20), drawn(64, 32)]),
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    function, inputs = NEAR_MISSES[name]
    with interpreted_cuda() as programs:
        compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)
        assert_close_to_float64(compiled, function, inputs, gradients=False)
    assert not [op for op in to_host(programs[0]).walk() if isinstance(op, kernel.ContractOp)]
