"""Random inputs: indices stay within what they index, at every level, and sizes are those asked for."""

from __future__ import annotations

import pytest
import torch

from cuesta.context import make_context
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.programs.inputs_of import InputsError, random_inputs_of
from cuesta.replaying.comparing import compare_results
from cuesta.targets.reference import run
from tests.support.text import parse

EMBEDDING = """
func.func @main(%w: tensor<50x8xf32>, %i: tensor<6xi64>) -> tensor<6x8xf32> {
  %a = aten.view.default(%i, [2, 3]) : (tensor<6xi64>) -> tensor<2x3xi64>
  %e = aten.embedding.default(%w, %a) : (tensor<50x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  %r = aten.view.default(%e, [6, 8]) : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
  func.return %r : tensor<6x8xf32>
}
"""

LEVELS = [number for number, stage in enumerate(STAGES) if stage.begins is not None and stage.name != "link-pieces"]


def test_an_index_stays_within_its_axis_at_every_level() -> None:
    module = parse(EMBEDDING)
    start = 0
    for end in (0, *(number + 1 for number in LEVELS)):
        run_pipeline(make_context(), module, [one for one in STAGES[start:end] if one.name not in LEFT_OUT])
        start = end
        made = random_inputs_of(module, seed=3)
        assert str(made.ranges[1]) == "[0, 49], an index of an axis of 50", STAGES[end - 1].name
        run(module, made.values)
    assert int(made.values[1].max()) > 1


LEFT_OUT = ("tune-kernels", "link-pieces", "lend-arguments")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("%r = aten.index.Tensor(%x, [none, %i]) : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<4x5xf32>", "[0, 8]"),
        ("%r = aten.index_select.default(%x, 0, %i) : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<5x9xf32>", "[0, 3]"),
        (
            "%j = aten.mul.Tensor(%i, 2) : (tensor<5xi64>) -> tensor<5xi64>\n"
            "%r = aten.index_select.default(%x, 1, %j) : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<4x5xf32>",
            "[0, 1], computed, then an index of an axis of 9",
        ),
        (
            "%r = aten.index_fill.int_Scalar(%x, 1, %i, 0.0) : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<4x9xf32>",
            "[0, 8]",
        ),
        ("%r = aten.take.default(%x, %i) : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<5xf32>", "[0, 35]"),
        ("%r = aten.lgamma.default(%i) : (tensor<5xi64>) -> tensor<5xf32>", "[0, 1], for an operator"),
        ("%r = aten.mul.Tensor(%i, 2) : (tensor<5xi64>) -> tensor<5xi64>", "[0, 7], data"),
        ('%r = aten.call "mylib::foo.default"(%i) : (tensor<5xi64>) -> tensor<5xf32>', "[0, 1], for an operator"),
    ],
)
def test_ranges_of_integers(body: str, said: str) -> None:
    kind = body.rpartition("-> ")[2]
    module = parse(
        f"func.func @main(%x: tensor<4x9xf32>, %i: tensor<5xi64>) -> {kind} {{\n{body}\nfunc.return %r : {kind}\n}}"
    )
    assert said in str(random_inputs_of(module).ranges[1])


def test_a_divisor_is_not_zero() -> None:
    module = parse("""
func.func @main(%x: tensor<64xi64>, %y: tensor<64xi64>) -> tensor<64xi64> {
  %r = aten.div.Tensor_mode(%x, %y, rounding_mode = "floor") : (tensor<64xi64>, tensor<64xi64>) -> tensor<64xi64>
  func.return %r : tensor<64xi64>
}
""")
    run_pipeline(make_context(), module, STAGES[:2])
    made = random_inputs_of(module)
    assert int(made.values[1].min()) == 1
    run(module, made.values)


def test_sizes() -> None:
    module = parse("""
func.func @main(%n: !sym.int<s0>, %x: tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>) -> tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>> attributes {sym.symbols = #sym.symbols<s0 in [2, 20]>} {
  %r = aten.exp.default(%x) : (tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>) -> tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>
  func.return %r : tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>
}
""")  # noqa: E501
    made = random_inputs_of(module, symbols={"s0": 9})
    assert (made.values[0], made.values[1].shape) == (9, (9, 4))
    assert str(made) == "random inputs, seed 0\n  sizes: s0 = 9"
    for wrong, message in [({"s0": 21}, r"s0 is to be 21, but .* in \[2, 20\]"), ({"s1": 3}, "no size s1.* s0")]:
        with pytest.raises(InputsError, match=message):
            random_inputs_of(module, symbols=wrong)


def test_a_device_that_is_not_here() -> None:
    module = parse("""
func.func @main(%x: tensor<4xf32, #aten.layout<device = "xpu:7">>) -> tensor<4xf32, #aten.layout<device = "xpu:7">> {
  func.return %x : tensor<4xf32, #aten.layout<device = "xpu:7">>
}
""")
    with pytest.raises(InputsError, match="argument 0 of @main lies on xpu:7, which is not here"):
        random_inputs_of(module)
    assert random_inputs_of(module, on_devices=False).values[0].device.type == "cpu"


def test_results_are_compared_with_the_truth() -> None:
    truth = torch.linspace(1, 2, 50, dtype=torch.float64)
    expected = truth.float()
    near, off = expected * (1 + 2e-7), expected.clone()
    off[17] += 1e-3
    good, bad = compare_results([near, off], [expected, expected], [truth, truth])
    assert good.passes
    assert str(bad).startswith("FAIL result 1: max error 0.001 (reference ")
    (count,) = compare_results([torch.tensor([1, 5])], [torch.tensor([1, 2])], [torch.tensor([1, 2])], names=["n"])
    assert str(count) == "FAIL n: not reference's values: 1 of 2 differ, first at [1]: 5, reference 2"
    lost = compare_results([torch.tensor([1.0, torch.nan])], [torch.ones(2)], [torch.ones(2).double()])
    assert lost[0].problem == "NaN or infinity where reference is finite"
    with pytest.raises(ValueError, match="1 results, 2 of the reference"):
        compare_results([near], [near, near], [near, near])
