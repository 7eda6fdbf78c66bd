"""Compiled graphs from disk: the same results, no stage run, and nothing that goes wrong there stops a program."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, randn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import cuesta
import cuesta.caching.cache
from cuesta.caching.entry import decode, encode
from cuesta.caching.key import sources_on_disk
from cuesta.record import CompileRecord
from tests.support.differential import check_call, compiled_of
from tests.support.fresh import Fresh

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
WARM_STAGES = {"cache-key", "cache-read", "load", "build", "load-compiler"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, turned on."""
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    # So that whoever edits the sources while this runs does not fail it.
    monkeypatch.setattr("cuesta.caching.key.sources_on_disk", lambda: "as they are")
    monkeypatch.setattr("cuesta.caching.key.loaded_sources", lambda: "as they are")
    torch.manual_seed(0)
    return tmp_path / "cache" / "graphs"


def compiled_again(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """As in a new process."""
    torch._dynamo.reset()
    cuesta.clear_records()
    return compiled_of(function, **settings)


def model() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 6), nn.LayerNorm(6), nn.Linear(6, 5), nn.GELU(), nn.Softmax(-1))


def results(compiled: Callable[..., Any], module: nn.Module, tokens: Tensor) -> list[Tensor]:
    """Outputs and gradients."""
    module.zero_grad()
    output = compiled(tokens)
    (output * output).sum().backward()
    return [
        output.detach(),
        *(parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None),
    ]


def summary(record: CompileRecord) -> tuple[Any, ...]:
    return record.kind, record.aten_ops, record.kernels, record.library_calls, record.fallbacks


def test_the_second_time_no_stage_runs(folder: Path) -> None:
    module, tokens = model(), torch.randint(0, 10, (3, 7))
    first = results(compiled_again(module), module, tokens)
    cold = list(cuesta.records)
    assert [record.from_cache for record in cold] == [False, False]
    assert len(list(folder.iterdir())) == 2

    compiled = compiled_again(module)
    second = results(compiled, module, tokens)
    assert [record.from_cache for record in cuesta.records] == [True, True]
    assert [summary(record) for record in cuesta.records] == [summary(record) for record in cold]
    for record in cuesta.records:
        assert set(record.seconds) == WARM_STAGES
    assert len(first) == len(second) == 6
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()
    check_call(compiled, module, tokens)


def test_a_tensor_of_the_graph_is_this_graph_s() -> None:
    def adding(values: list[float]) -> Callable[[Tensor], Tensor]:
        return lambda x: x + torch.tensor(values)

    x = randn(4, 2)
    for values, known in ([[1.0, 2.0], False], [[3.0, 4.0], True]):
        function = adding(values)
        check_call(compiled_again(function), function, x)
        assert cuesta.records[0].from_cache == known


def test_symbolic_sizes() -> None:
    def function(x: Tensor) -> tuple[Tensor, int]:
        return F.softmax(x * x.shape[0], -1).sum(0), x.shape[0] * 2

    for known in (False, True):
        compiled = compiled_again(function, dynamic=True)
        for size in (4, 7, 33):
            check_call(compiled, function, randn(size, 6))
        assert [record.from_cache for record in cuesta.records] == [known]


def test_a_graph_without_kernels() -> None:
    for known in (False, True):
        check_call(compiled_again(lambda x: x @ x), lambda x: x @ x, randn(3, 3))
        assert [record.from_cache for record in cuesta.records] == [known]


def test_random_numbers_are_drawn_anew() -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x + 1, 0.5)

    for known in (False, True):
        compiled = compiled_again(function)
        for seed in (1, 2):
            check_call(compiled, function, randn(50), seed=seed)
        assert [record.from_cache for record in cuesta.records] == [known]


def test_an_index_error_names_the_line_of_the_model_at_hand() -> None:
    def first(x: Tensor, i: Tensor) -> Tensor:
        return x[i] * 2

    def second(x: Tensor, i: Tensor) -> Tensor:
        return x[i] * 2

    x, i = randn(5), torch.tensor([7])
    for function, known in ((first, False), (second, True)):
        line = function.__code__.co_firstlineno + 1
        compiled = compiled_again(function)
        with pytest.raises(IndexError, match=rf"index 7 is out of bounds .* \(.*test_cache.py:{line}\)$"):
            compiled(x, i)
        assert [record.from_cache for record in cuesta.records] == [known]


# -- when the cache is passed by ---------------------------------------------------------------------------------------


def test_a_dump_is_whole_whatever_is_in_the_cache(tmp_path: Path) -> None:
    def function(x: Tensor) -> Tensor:
        return (x + 1).sum()

    names: list[set[str]] = []
    for number, options in enumerate(({"cache": False}, {}, {})):
        compiled_again(function, options={**options, "dump": str(tmp_path / str(number))})(randn(4))
        (record,) = cuesta.records
        assert not record.from_cache and record.dump is not None
        names.append({path.name for path in Path(record.dump).iterdir()})
    assert names[0] == names[1] == names[2] and "wrapper.py" in names[0]
    compiled_again(function)(randn(4))
    assert cuesta.records[0].from_cache, "what was dumped is kept all the same"


@pytest.mark.parametrize("options", [{"verify": "each"}, {"trace": True}])
def test_checks_and_traces_run_the_stages(options: dict[str, Any]) -> None:
    for _ in range(2):
        compiled_again(torch.sin, options=options)(randn(4))
        assert not cuesta.records[0].from_cache and "fuse-nests" in cuesta.records[0].seconds


@pytest.mark.parametrize("how", ["option", "environment"])
def test_it_can_be_turned_off(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "environment":
        monkeypatch.setenv("CUESTA_CACHE", "0")
    for _ in range(2):
        compiled_again(torch.sin, options={"cache": False} if how == "option" else {})(randn(4))
        assert not cuesta.records[0].from_cache
    assert not folder.exists()


def test_a_graph_that_runs_in_eager_is_not_kept(folder: Path) -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="no target for the device meta"):
            compiled_again(lambda x: x + 1)(randn(3, device="meta"))
    assert not folder.exists()


def test_other_options_are_another_program() -> None:
    for options in ({}, {"emulate_precision_casts": True}):
        compiled_again(torch.sin, options=options)(randn(4).bfloat16())
        assert not cuesta.records[0].from_cache


def test_sources_that_are_edited_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuesta.caching.key.sources_on_disk", lambda: "edited")
    check_call(compiled_again(torch.sin), torch.sin, randn(4))
    assert not folder.exists(), "no one knows which version made it"


# -- damage ------------------------------------------------------------------------------------------------------------


def check_recovery(folder: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    """A damaged entry is told, and the graph compiled again; the time after, all is well."""

    def function(x: Tensor) -> Tensor:
        return F.gelu(x) + 1

    check_call(compiled_again(function), function, randn(5, 3))
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=message):
        check_call(compiled_again(function), function, randn(5, 3))
    assert not cuesta.records[0].from_cache
    check_call(compiled_again(function), function, randn(5, 3))
    assert cuesta.records[0].from_cache


@pytest.mark.parametrize("part", [0.0, 0.5])
def test_a_truncated_entry(folder: Path, part: float) -> None:
    check_recovery(folder, lambda data: data[: int(len(data) * part)], r"is damaged \(.*compiled again")


@pytest.mark.parametrize("part", [0.01, pytest.param(0.999, marks=pytest.mark.slow)])
def test_a_tampered_entry(folder: Path, part: float) -> None:
    def flip(data: bytes) -> bytes:
        place = int(len(data) * part)
        return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]

    check_recovery(folder, flip, r"is damaged \(.*compiled again")


def _rebuilt(data: bytes, **changes: Any) -> bytes:
    """The entry with another program, sealed again: what our own mistake, not an accident, would write."""
    from dataclasses import replace

    key = json.loads(data.split(b"\n", 3)[2])["key"]
    entry = decode(key, data)
    return encode(key, replace(entry, program=replace(entry.program, **changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"object_code": b"not an object file"},
        pytest.param({"source": "def call(args:\n"}, marks=pytest.mark.slow),
        pytest.param({"source": "x = 1\n"}, marks=pytest.mark.slow),
        pytest.param({"overloads": {"f": "aten.no_such_thing.default"}}, marks=pytest.mark.slow),
    ],
)
def test_an_entry_that_does_not_load(folder: Path, changes: dict[str, Any]) -> None:
    check_recovery(folder, lambda data: _rebuilt(data, **changes), r"is damaged \(.*compiled again")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="cannot be written .*set CUESTA_CACHE_DIR"):
        check_call(compiled_again(torch.sin), torch.sin, randn(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_call(compiled_again(torch.cos), torch.cos, randn(4))


def test_a_size_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_CACHE_SIZE", "much")
    with pytest.raises(BackendCompilerFailed, match="CUESTA_CACHE_SIZE is a whole number of MiB, not 'much'"):
        compiled_again(torch.sin)(randn(4))


# -- graphs of which eager runs a part ---------------------------------------------------------------------------------


def chosen(x: Tensor) -> Tensor:
    return (x * 2)[x > 0].exp().sum() + x.sum()


class Branches(nn.Module):
    """A branch that reads a tensor that the graph holds."""

    def __init__(self, bias: float, function: Callable[[Tensor], Tensor] = torch.sin) -> None:
        super().__init__()
        self.bias, self.function = bias, function

    def forward(self, x: Tensor) -> Tensor:
        bias = torch.tensor([self.bias, 2.0, 3.0, 4.0, 5.0])
        return torch.cond(x.sum() > 0, lambda x: self.function(x + bias), lambda x: x * bias, [x.relu()]) + 1


class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(lambda x: F.dropout(F.gelu(self.layer(x)), 0.3, True), x, use_reentrant=False).sum()


@pytest.mark.parametrize("make", [lambda: chosen, lambda: Branches(1.0), Recomputed])
def test_a_graph_in_pieces_is_one_entry(make: Callable[[], Any], folder: Path) -> None:
    function = make()
    gradients = isinstance(function, Recomputed)
    x = torch.ones(8, 5, requires_grad=gradients)
    found: list[list[Tensor]] = []
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for again in (False, True):
            torch.manual_seed(3)
            output = compiled_again(function)(x)
            found.append([output.detach()])
            if gradients:
                found[-1] += torch.autograd.grad(output, [x, *function.parameters()])
            assert [record.from_cache for record in cuesta.records] == [again] * (1 + gradients)
            assert not again or set(cuesta.records[0].seconds) == WARM_STAGES
            assert all(record.kernels and record.fallbacks for record in cuesta.records)
    assert len(list(folder.iterdir())) == 1 + gradients
    assert all(map(torch.equal, *found))


def test_graphs_that_another_holds_are_in_the_key(folder: Path) -> None:
    """A branch that differs is another program; the numbers that it reads are not part of it."""
    x = torch.ones(8, 5)
    for number, (bias, function, known) in enumerate(
        ((1.0, torch.sin, False), (-1.0, torch.sin, True), (1.0, torch.cos, False))
    ):
        module = Branches(bias, function)
        torch.testing.assert_close(compiled_again(module)(x), module(x))
        (record,) = cuesta.records
        assert record.from_cache == known, f"graph {number}"
    assert len(list(folder.iterdir())) == 2


# -- processes ---------------------------------------------------------------------------------------------------------

LIGHT = tuple(
    f"cuesta.dialects.core{name}"
    for name in (
        "",
        ".deadline",
        ".devices",
        ".extension",
        ".keyed_draws",
        ".process_lock",
        ".random_words",
        ".setting",
        ".structs",
    )
)
"""What looks up targets and extensions, names calls, or waits for LLVM, and imports nothing of the compiler's."""

PROGRAM = """
import hashlib, json, sys, torch, cuesta
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Softmax(-1))
compiled = torch.compile(model, backend="cuesta", fullgraph=True)
output = compiled(torch.randn(40, 6))
output.square().sum().backward()
torch._dynamo.config.capture_dynamic_output_shape_ops = True
positive = torch.compile(lambda x: (x * 2)[x > 0].exp(), backend="cuesta")(torch.randn(40, 6))
values = [output.detach(), *(parameter.grad for parameter in model.parameters()), positive]
print(json.dumps({
    "values": hashlib.sha256(b"".join(value.contiguous().numpy().tobytes() for value in values)).hexdigest(),
    "from_cache": [record.from_cache for record in cuesta.records],
    "stages": sorted({stage for record in cuesta.records for stage in record.seconds}),
    "xdsl": "xdsl" in sys.modules,
    "compiler": sorted(name for name in sys.modules if name.startswith(("cuesta.dialects.", "cuesta.transforms."))),
}))
"""


def start(log: Path) -> Fresh:
    return Fresh(PROGRAM, environment=os.environ, log=log)


def told(process: Fresh) -> dict[str, Any]:
    status = process.wait(120)
    said = process.said()
    assert status == 0 and said.count("\n") == 1, f"exit status {status}; a warning, too, is one:\n{said}"
    return json.loads(said)


@pytest.mark.slow
def test_a_later_process_starts_warm(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two processes compile the same at once; whichever comes later does not."""
    sources = sources_on_disk()
    logs = tmp_path_factory.mktemp("logs")
    processes = [start(logs / "one"), start(logs / "two")]
    cold = [told(process) for process in processes]
    assert {path.suffix for path in folder.iterdir()} == {".graph"}
    warm = told(start(logs / "warm"))
    if sources != sources_on_disk():
        pytest.skip("somebody edited the sources meanwhile")
    assert len(list(folder.iterdir())) == 3
    assert any(one["xdsl"] for one in cold)
    assert warm["from_cache"] == [True, True, True]
    assert set(warm["stages"]) == WARM_STAGES
    assert not warm["xdsl"] and not set(warm["compiler"]) - set(LIGHT), "a warm process does without the compiler"
    assert cold[0]["values"] == cold[1]["values"] == warm["values"]
