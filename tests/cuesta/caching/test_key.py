"""The key changes with all that a compilation depends on, and with nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import cuesta.caching.key
from cuesta.caching.device_numbers import on_devices
from cuesta.caching.graph_key import UnkeyableError, graph_text
from cuesta.caching.key import NOT_IN_KEY, key_and_devices, key_of, loaded_sources, settings_lines, sources_on_disk
from cuesta.dialects.core.locations import print_text
from cuesta.frozen import FROZEN
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.options import Options
from cuesta.targets.program import Program
from cuesta.targets.triton import target
from tests.support.tensors import FakeOn

pytestmark = pytest.mark.slow

aten = torch.ops.aten
ROOT = Path(__file__).resolve().parents[3]


def traced(function: Callable[..., Any], *inputs: Any, mode: Literal["fake", "symbolic"] = "fake") -> GraphModule:
    return make_fx(function, tracing_mode=mode)(*inputs)


x, y = torch.ones(4, 6), torch.ones(4, 6)


def one_after_another(a: Tensor, b: Tensor) -> Tensor:
    return aten.add.Tensor(aten.mul.Tensor(a, 2), b)


class HoldsTensor(nn.Module):
    def __init__(self, held: Tensor) -> None:
        super().__init__()
        self.held = held

    def forward(self, a: Tensor) -> Tensor:
        return aten.mul.Tensor(a, self.held)


def holding(held: Tensor) -> GraphModule:
    """A graph with a tensor of its own."""
    graph = torch.fx.Graph()
    node, attribute = graph.placeholder("a"), graph.get_attr("held")
    product = graph.call_function(aten.mul.Tensor, (node, attribute))
    graph.output((product,))
    node.meta["val"] = product.meta["val"] = x
    return GraphModule(HoldsTensor(held), graph)


def ranged(lower: int, upper: int | None) -> GraphModule:
    """A graph over a symbolic size with the given range."""
    gm = traced(one_after_another, x, y, mode="symbolic")
    (size, *_) = next(iter(gm.graph.nodes)).meta["val"].shape
    torch._check(size >= lower)
    if upper is not None:
        torch._check(size <= upper)
    return gm


def edited(change: Callable[[Any], None]) -> GraphModule:
    gm = traced(one_after_another, x, y)
    change({node.name: node for node in gm.graph.nodes})
    return gm


def with_kwarg(nodes: dict[str, Any]) -> None:
    nodes["add"].kwargs = {"alpha": 2}


VARIANTS: dict[str, Callable[[], GraphModule]] = {
    "as it is": lambda: traced(one_after_another, x, y),
    "another op": lambda: traced(lambda a, b: aten.sub.Tensor(aten.mul.Tensor(a, 2), b), x, y),
    "another order of arguments": lambda: traced(lambda a, b: aten.add.Tensor(b, aten.mul.Tensor(a, 2)), x, y),
    "the other input": lambda: traced(lambda a, b: aten.add.Tensor(aten.mul.Tensor(b, 2), a), x, y),
    "another constant": lambda: traced(lambda a, b: aten.add.Tensor(aten.mul.Tensor(a, 3), b), x, y),
    "a float constant": lambda: traced(lambda a, b: aten.add.Tensor(aten.mul.Tensor(a, 2.0), b), x, y),
    "a bool constant": lambda: traced(lambda a, b: aten.add.Tensor(aten.mul.Tensor(a, True), b), x, y),
    "zero": lambda: traced(lambda a, b: aten.add.Tensor(aten.mul.Tensor(a, 0.0), b), x, y),
    "minus zero": lambda: traced(lambda a, b: aten.add.Tensor(aten.mul.Tensor(a, -0.0), b), x, y),
    "the next float": lambda: traced(
        lambda a, b: aten.add.Tensor(aten.mul.Tensor(a, 2.0000000000000004), b), x, y
    ),
    "nan": lambda: traced(lambda a, b: aten.add.Tensor(aten.mul.Tensor(a, float("nan")), b), x, y),
    "a keyword": lambda: edited(with_kwarg),
    "dtype": lambda: traced(one_after_another, x.double(), y.double()),
    "dtype of one": lambda: traced(one_after_another, x, y.half()),
    "sizes": lambda: traced(one_after_another, x[:2], y[:2]),
    "rank": lambda: traced(one_after_another, x[None], y[None]),
    "strides": lambda: traced(one_after_another, torch.ones(6, 4).t(), y),
    "strides of size-1 dimensions": lambda: traced(
        one_after_another, torch.ones(6)[None].as_strided((1, 6), (9, 1)), y
    ),
    "strides the same": lambda: traced(one_after_another, torch.ones(1, 6), y),
    "device": lambda: traced(one_after_another, x.to("meta"), y.to("meta")),
    "two outputs": lambda: traced(lambda a, b: (one_after_another(a, b), aten.mul.Tensor(a, 2)), x, y),
    "outputs in another order": lambda: traced(lambda a, b: (aten.mul.Tensor(a, 2), one_after_another(a, b)), x, y),
    "an output that is None": lambda: traced(lambda a, b: (one_after_another(a, b), None), x, y),
    "an output that is a number": lambda: traced(lambda a, b: (one_after_another(a, b), 3), x, y),
    "an input more": lambda: traced(lambda a, b, c: one_after_another(a, b), x, y, y),
    "an input that is an int": lambda: traced(lambda a, b, c: one_after_another(a, b), x, y, 3),
    "symbolic": lambda: traced(one_after_another, x, y, mode="symbolic"),
    "symbolic, square": lambda: traced(one_after_another, x[:, :4], y[:, :4], mode="symbolic"),
    "symbolic, transposed": lambda: traced(one_after_another, torch.ones(6, 4).t(), y, mode="symbolic"),
    "symbolic, from 3": lambda: ranged(3, None),
    "symbolic, from 3 to 100": lambda: ranged(3, 100),
    "symbolic, a size in a call": lambda: traced(lambda a: aten.view.default(a, [a.shape[0] * 6]), x, mode="symbolic"),
    "symbolic, a size returned": lambda: traced(lambda a: (a + 1, a.shape[0] + 1), x, mode="symbolic"),
    "symbolic, another size returned": lambda: traced(lambda a: (a + 1, a.shape[1] + 1), x, mode="symbolic"),
    "symbolic, half of a size": lambda: traced(lambda a: (a + 1, a.shape[0] // 2), x, mode="symbolic"),
    "a dtype argument": lambda: traced(lambda a: aten.sum.default(a, dtype=torch.float64), x),
    "a list argument": lambda: traced(lambda a: aten.sum.dim_IntList(a, [0, 1]), x),
    "another list argument": lambda: traced(lambda a: aten.sum.dim_IntList(a, [1]), x),
    "a memory format": lambda: traced(lambda a: aten.clone.default(a, memory_format=torch.contiguous_format), x),
    "another memory format": lambda: traced(lambda a: aten.clone.default(a, memory_format=torch.preserve_format), x),
    "a string": lambda: traced(lambda a: aten.div.Tensor_mode(a, 3, rounding_mode="floor"), x),
    "another string": lambda: traced(lambda a: aten.div.Tensor_mode(a, 3, rounding_mode="trunc"), x),
    "a tensor of its own": lambda: holding(torch.ones(6)),
    "a tensor of its own, f64": lambda: holding(torch.ones(6, dtype=torch.float64)),
    "a tensor of its own, strided": lambda: holding(torch.ones(12)[::2]),
}  # fmt: skip


@pytest.fixture(scope="module")
def variants() -> dict[str, GraphModule]:
    return {name: make() for name, make in VARIANTS.items()}


def test_whatever_changes_the_graph_changes_the_text(variants: dict[str, GraphModule]) -> None:
    texts = {name: graph_text(gm) for name, gm in variants.items()}
    same = [(a, b) for a, b in combinations(texts, 2) if texts[a] == texts[b]]
    assert not same
    assert texts == {name: graph_text(make()) for name, make in VARIANTS.items()}, "it differs from trace to trace"


def aten_text(gm: GraphModule) -> str:
    """The program at the level `aten`, without the names of values."""
    module = import_graph(gm).module
    for op in module.walk():
        for value in (*op.results, *(argument for region in op.regions for argument in region.blocks[0].args)):
            value.name_hint = None
        if "aten.constants" in op.attributes:
            del op.attributes["aten.constants"]
    return print_text(module)


def test_it_says_what_the_importer_reads(variants: dict[str, GraphModule]) -> None:
    """Graphs that differ at the level `aten` have different keys; the text has all that the importer reads."""
    texts = {name: aten_text(gm) for name, gm in variants.items()}
    assert len(set(texts.values())) > 40
    for a, b in combinations(texts, 2):
        if texts[a] != texts[b]:
            assert graph_text(variants[a]) != graph_text(variants[b]), f"{a} and {b}"


# -- what changes nothing ----------------------------------------------------------------------------------------------


def renamed(gm: GraphModule) -> GraphModule:
    for number, node in enumerate(gm.graph.nodes):
        node.name = f"other_{number}"
        node.meta["stack_trace"] = f'File "/elsewhere/model.py", line {number}, in forward'
    return gm


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_names_and_lines_are_left_out(mode: Literal["fake", "symbolic"]) -> None:
    plain = traced(one_after_another, x, y, mode=mode)
    assert graph_text(renamed(traced(one_after_another, x, y, mode=mode))) == graph_text(plain)


def test_numbers_of_tensors_and_hints_of_sizes_are_left_out() -> None:
    assert graph_text(holding(torch.ones(6))) == graph_text(holding(torch.zeros(6)))
    sizes = [traced(one_after_another, torch.ones(n, 3 * n), torch.ones(n, 3 * n), mode="symbolic") for n in (5, 7)]
    assert graph_text(sizes[0]) == graph_text(sizes[1])


def test_names_of_symbols_are_left_out() -> None:
    """As Dynamo names symbols by where they come from, and one layer may be captured from several places."""
    texts: list[str] = []

    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there
    from torch._dynamo.backends.common import aot_autograd

    def compiler(gm: GraphModule, _: Any) -> Any:
        texts.append(graph_text(gm))
        return make_boxed_func(gm.forward)

    def first(a: Tensor) -> Tensor:
        return (a * 2).view(-1)

    def second(completely: int, other: Tensor) -> Tensor:
        return (other * 2).view(-1)

    backend = aot_autograd(fw_compiler=compiler)
    torch._dynamo.reset()
    torch.compile(first, backend=backend, dynamic=True, fullgraph=True)(x)
    torch.compile(second, backend=backend, dynamic=True, fullgraph=True)(3, x)
    assert len(texts) == 2 and texts[0] == texts[1] and "$0" in texts[0]


# -- what has no text --------------------------------------------------------------------------------------------------


def with_argument(value: Any) -> GraphModule:
    def change(nodes: dict[str, Any]) -> None:
        nodes["mul"].args = (nodes["mul"].args[0], value)

    return edited(change)


def test_a_dictionary_says_its_keys_and_values() -> None:
    """As `flex_attention` is given options."""
    texts = [graph_text(with_argument(value)) for value in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1}, {})]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    "value", [slice(1), object(), {"a": object()}, torch.Generator(), range(3)], ids=lambda value: type(value).__name__
)
def test_what_we_have_no_text_for_has_no_key(value: Any) -> None:
    gm = with_argument(3)
    next(node for node in gm.graph.nodes if node.name == "mul").meta["val"] = value
    with pytest.raises(UnkeyableError):
        graph_text(gm)
    assert key_of(gm, "inference", Options()) is None


def test_calls_of_anything_have_no_key() -> None:
    def change(nodes: dict[str, Any]) -> None:
        nodes["mul"].target = one_after_another

    with pytest.raises(UnkeyableError, match="a call of <function one_after_another"):
        graph_text(edited(change))


def test_an_operator_of_a_user_is_its_schema() -> None:
    texts: list[str] = []
    for schema in ("f(Tensor x, int n) -> Tensor", "f(Tensor x, float n) -> Tensor"):
        library = torch.library.Library("cachekey", "FRAGMENT")
        library.define(schema)
        library.impl("f", lambda x, n: x * n, "CompositeExplicitAutograd")
        graph = torch.fx.Graph()
        node = graph.placeholder("a")
        call = graph.call_function(torch.ops.cachekey.f.default, (node, 2))
        graph.output((call,))
        node.meta["val"] = call.meta["val"] = x
        texts.append(graph_text(GraphModule({}, graph)))
        library._destroy()
        delattr(torch.ops, "cachekey")
    assert texts[0] != texts[1]


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_process() -> Iterator[None]:
    """What is remembered for a process is forgotten before and after."""
    caches = (cuesta.caching.key._process_lines, loaded_sources)
    for one in caches:
        one.cache_clear()
    yield
    for one in caches:
        one.cache_clear()


@pytest.fixture(scope="module")
def gm() -> GraphModule:
    return VARIANTS["as it is"]()


def test_what_the_user_chooses(gm: GraphModule) -> None:
    every = [
        key_of(gm, "inference", Options()),
        key_of(gm, "forward", Options()),
        key_of(gm, "backward", Options()),
        key_of(gm, "inference", Options(mode="max-autotune")),
        key_of(gm, "inference", Options(pipeline="aten-to-loops")),
        key_of(gm, "inference", Options(random="philox")),
        key_of(gm, "inference", Options(emulate_precision_casts=True)),
    ]
    assert None not in every and len(set(every)) == len(every)
    assert all(re.fullmatch("[0-9a-f]{64}", key or "") for key in every)


def test_options_that_do_not_matter(gm: GraphModule) -> None:
    for one in (Options(dump="/tmp/x"), Options(trace=True), Options(verify="each")):
        assert key_of(gm, "inference", one) == key_of(gm, "inference", Options())
        assert one.wants_stages
    assert not Options().wants_stages


def test_every_other_option_is_in_the_key() -> None:
    lines = "\n".join(settings_lines("inference", Options()))
    for name in Options.__dataclass_fields__:
        assert (f"{name}=" in lines) == (name not in NOT_IN_KEY)


def test_settings_of_torch(gm: GraphModule, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = key_of(gm, "inference", Options())
    torch.use_deterministic_algorithms(True)
    try:
        assert key_of(gm, "inference", Options()) != plain
    finally:
        torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.float64)
    try:
        assert key_of(gm, "inference", Options()) != plain
    finally:
        torch.set_default_dtype(torch.float32)
    context = SimpleNamespace(fw_metadata=SimpleNamespace(static_input_indices=[1]))
    monkeypatch.setattr("torch._guards.TracingContext.try_get", lambda: context)
    assert key_of(gm, "inference", Options()) != plain
    monkeypatch.undo()
    assert key_of(gm, "inference", Options()) == plain


def test_inputs_that_are_frozen(gm: GraphModule) -> None:
    frozen = Options(frozen=True)
    plain = key_of(gm, "inference", frozen)
    assert plain != key_of(gm, "inference", Options())
    gm.meta[FROZEN] = (1,)
    assert key_of(gm, "inference", frozen) != plain


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("torch.__version__", "9.9"),
        ("torch.version.git_version", "0" * 40),
        ("sys.version", "3.99"),
        ("llvmlite.binding.llvm_version_info", (99, 0, 0)),
        ("importlib.metadata.version", lambda name: "99"),
        ("cuesta.targets.cpu.features.host_features", lambda: SimpleNamespace(
            triple="riscv64", cpu_name="x", f32_lanes=4, feature_string="+v", has=lambda *names: False
        )),
        ("cuesta.targets.cpu.facts.facts_of_onednn", lambda: {"onednn": 7.0}),
        ("cuesta.targets.cpu.libraries.library_addresses", lambda: {"expf": 1}),
        ("cuesta.caching.key.sources_on_disk", lambda: "edited"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("fresh_process")
def test_who_compiles_for_what(gm: GraphModule, monkeypatch: pytest.MonkeyPatch, place: str, value: Any) -> None:
    plain = key_of(gm, "inference", Options())
    cuesta.caching.key._process_lines.cache_clear()
    loaded_sources.cache_clear()
    monkeypatch.setattr(place, value)
    assert key_of(gm, "inference", Options()) != plain


def test_cuda_devices_are_in_the_key_of_their_graphs(gm: GraphModule, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cuda = VARIANTS["as it is"]()
    fake = FakeOn("cuda:0")
    monkeypatch.setattr("cuesta.caching.graph_key._Writer.metadata", lambda writer, node: writer.tensor(fake))
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1")
    keys: list[str | None] = []
    for name, capability in [("H100", 9), ("H200", 9), ("A100", 8)]:
        target._key_lines.cache_clear()
        device = SimpleNamespace(name=name, major=capability, minor=0, multi_processor_count=132)
        monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
        monkeypatch.setattr("torch.cuda.get_device_properties", lambda index, device=device: device)
        keys.append(key_of(on_cuda, "inference", Options()))
    monkeypatch.undo()
    target._key_lines.cache_clear()
    assert None not in keys and len(set(keys)) == 3


def on_cuda(*devices: str, said: str = "") -> GraphModule:
    """A graph over tensors on some devices, one of which it makes itself."""
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(f"x{number}") for number in range(len(devices))]
    nodes.append(graph.call_function(aten.full.default, ([4], 1.0), {"device": torch.device(devices[-1])}))
    for node, device in zip(nodes, (*devices, devices[-1]), strict=True):
        node.meta["val"] = FakeOn(device)
    if said:
        nodes.append(graph.call_function(aten.div.Tensor_mode, (nodes[0], nodes[0]), {"rounding_mode": said}))
        nodes[-1].meta["val"] = FakeOn(devices[0])
    graph.output(tuple(nodes))
    return GraphModule({}, graph)


def test_the_number_of_a_device_is_in_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def keyed(*devices: str, said: str = "") -> tuple[str | None, tuple[int, ...]]:
        return key_and_devices(on_cuda(*devices, said=said), "inference", Options())

    first, second = keyed("cuda:0"), keyed("cuda:5")
    assert first[0] is not None and first[0] == second[0] and (first[1], second[1]) == ((0,), (5,))
    assert keyed("cuda:1", "cuda:0") == (keyed("cuda:0", "cuda:1")[0], (1, 0))
    assert keyed("cuda:0", "cuda:0")[0] not in (keyed("cuda:0", "cuda:1")[0], keyed("cuda:0", "cpu")[0])
    # A string may be the name of a device: what it means to an operator nobody knows.
    assert keyed("cuda:0", said="cuda:0")[0] != keyed("cuda:1", said="cuda:0")[0]
    assert keyed("cuda:1", said="cuda:0")[1] == ()
    # Devices that are not alike have machine code of their own.
    monkeypatch.setattr("cuesta.caching.device_numbers._are_alike", lambda: False)
    assert keyed("cuda:0")[0] != keyed("cuda:5")[0] and keyed("cuda:5")[1] == ()


def test_a_text_names_other_devices() -> None:
    source = (
        "a = empty_cuda_1((1,), (1,), torch.float32)\nb = f(current_stream(2), torch.device('cuda:1'), 'cuda:12', 1)"
    )
    program = on_devices(Program(source, {}, (), (), None), (1, 2), (2, 1))
    assert program.source == (
        "a = empty_cuda_2((1,), (1,), torch.float32)\nb = f(current_stream(1), torch.device('cuda:2'), 'cuda:12', 1)"
    )


def test_the_sources_are_all_files_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed() -> str:
        monkeypatch.setattr(
            "importlib.util.find_spec",
            lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path / name.replace("cuesta.", ""))]),
        )
        return sources_on_disk()

    for folder in ("cuesta", "dialects/core"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(UnkeyableError, match="are not files"):
        hashed()
    file = tmp_path / "dialects" / "core" / "one.py"
    seen: list[str] = []
    for path, text in [(file, "a"), (file, "b"), (file.with_name("two.json"), ""), (tmp_path / "cuesta/z.py", "")]:
        path.write_text(text)
        seen.append(hashed())
    assert len(set(seen)) == 4
    (file.parent / "__pycache__").mkdir()
    (file.parent / "__pycache__" / "one.pyc").write_bytes(b"1")
    assert hashed() == seen[-1]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cuesta" / "inner").symlink_to(tmp_path / "elsewhere")  # as in build/links/
    (tmp_path / "elsewhere" / "round").symlink_to(tmp_path)
    for text in "ab":
        (tmp_path / "elsewhere" / "one.py").write_text(text)
        seen.append(hashed())
    assert len(set(seen)) == 6


READS_OF_THE_PROCESS = {
    "environ", "getenv", "backends", "get_num_threads", "get_default_dtype", "get_float32_matmul_precision",
    "are_deterministic_algorithms_enabled", "is_autocast_enabled", "get_device_properties", "cpu_count", "config",
}  # fmt: skip


def test_the_compiler_reads_nothing_that_is_not_in_the_key() -> None:
    """Settings of a process that the compiler reads belong into `cuesta/caching/key.py`, and then into this test.

    What a target's facts are made of is in the key with them (`test_who_compiles_for_what`). Blocks of packed weights
    are of 64 or 32 columns in the graph that the key is made of.
    """
    in_the_key = (ROOT / "targets/cpu/facts.py", ROOT / "lowering/capture/packed_weights.py")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for folder in ("dialects", "transforms", "lowering", "targets/cpu", "targets/host")
        for path in (ROOT / folder).rglob("*.py")
        if path not in in_the_key
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in READS_OF_THE_PROCESS
    ]
    assert not found
