"""What the layout of images is said to cost convolutions on a GPU."""

from __future__ import annotations

import pytest

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.core.machine import Machine
from cuesta.transforms.views import convolution_costs
from cuesta.transforms.views.convolution_costs import Convolution, channels_first_costs, kind_of_convolution

MEASURED = Machine.of({"memory_rate": convolution_costs._MEMORY_RATE})
PASSES = {"none": "", "both": ", [true, true, false]", "weight": ", [false, true, false]"}


def cost_of(
    channels: int,
    out: int,
    window: int,
    dtype: str = "f32",
    *,
    stride: int = 1,
    groups: int = 1,
    gradients: str = "none",
    device: str = "cuda:0",
    machine: Machine = MEASURED,
) -> tuple[str | None, float | None]:
    """The kind of a convolution of images of 32 x 32 points, and what channels first costs more."""
    size = 32 // stride

    def tensor(*sizes: int) -> str:
        return f'tensor<{"x".join(map(str, sizes))}x{dtype}, #aten.layout<device = "{device}">>'

    image, weight = tensor(2, channels, 32, 32), tensor(out, channels // groups, window, window)
    result = tensor(2, out, size, size)
    pad = 0 if window == stride else window // 2
    said = f"none, [{stride}, {stride}], [{pad}, {pad}], [1, 1], false, [0, 0], {groups}"
    if gradients == "none":
        call = f'%y = loops.extern pure "aten.convolution.default"(%x, %w, {said}) : ({image}, {weight}) -> {result}'
        text = f"func.func @main(%x : {image}, %w : {weight}) -> {result} {{ {call} func.return %y : {result} }}"
    else:
        results = ["%g"] if gradients == "weight" else ["%h", "%g"]
        types = [weight] if gradients == "weight" else [image, weight]
        call = (
            f'{", ".join(results)} = loops.extern pure "aten.convolution_backward.default"'
            f"(%y, %x, %w, {said}{PASSES[gradients]}) : ({result}, {image}, {weight}) -> ({', '.join(types)})"
        )
        given = f"%y : {result}, %x : {image}, %w : {weight}"
        text = f"func.func @main({given}) -> {weight} {{ {call} func.return %g : {weight} }}"
    module = CuestaParser(make_context(), text, "<test>").parse_module()
    (extern,) = (op for op in module.walk() if isinstance(op, loops.ExternOp))
    convolution = Convolution.of(extern)
    assert convolution is not None
    return kind_of_convolution(convolution), channels_first_costs(convolution, machine)


def test_what_a_kind_of_call_costs_depends_on_its_type() -> None:
    assert cost_of(64, 64, 3) == ("plain", 2.0)
    assert cost_of(64, 64, 3, "bf16") == ("plain", 3.2)
    assert cost_of(64, 64, 2, stride=2) == ("patches", 1.5)
    kind, cost = cost_of(64, 64, 3, "bf16", groups=4)
    assert kind == "grouped" and cost is not None and cost < 0  # channels first is faster


def test_faster_memory_moves_more_meanwhile() -> None:
    faster = Machine.of({"memory_rate": 2 * MEASURED.memory_rate})
    assert cost_of(64, 64, 3, machine=faster) == ("plain", 4.0)
    assert cost_of(64, 64, 1, machine=faster) == cost_of(64, 64, 1)  # a product, of images as they lie
    assert cost_of(64, 64, 3, device="cpu", machine=faster) == cost_of(64, 64, 3, device="cpu")


@pytest.mark.parametrize("channels, out", [(64, 7), (3, 64)])
def test_few_channels_are_no_vector(channels: int, out: int) -> None:
    kind, cost = cost_of(channels, out, 1, "bf16")
    assert kind == "pointwise" and cost is not None and cost < 0
    assert cost_of(64, 8, 1, "bf16") == ("pointwise", 2.3)


def test_large_windows_of_colours_are_slow_channels_first() -> None:
    costs = [cost_of(3, 64, window)[1] for window in (3, 5, 7, 11)]
    halves = [cost_of(3, 64, window, "bf16")[1] for window in (3, 5, 7, 11)]
    assert costs == [0.2, 1.0, 2.7, 4.5]
    assert halves == [-0.5, 0.0, 3.9, 5.8]
    assert cost_of(8, 64, 11) == ("plain", 2.0)


def test_a_gradient_alone_is_half_of_both() -> None:
    _, both = cost_of(64, 64, 3, "bf16", gradients="both")
    _, one = cost_of(64, 64, 3, "bf16", gradients="weight")
    assert both is not None and one is not None and both == 2 * one > 0


def test_a_processor_has_numbers_of_its_own() -> None:
    assert cost_of(64, 64, 1, device="cpu") == ("pointwise", 2.0)
    assert cost_of(64, 64, 3, gradients="both", device="cpu") == ("plain", None)


def test_groups_of_16_bits_are_faster_channels_first_and_of_32_those_of_many_channels() -> None:
    for channels, out, groups in ((64, 64, 2), (240, 64, 4), (64, 32, 2), (16, 64, 4)):
        for stride in (1, 2):
            for gradients in ("none", "both"):
                cost = cost_of(channels, out, 3, "bf16", stride=stride, groups=groups, gradients=gradients)[1]
                assert cost is not None and cost < 0
    assert cost_of(64, 64, 3, groups=2) == ("grouped", 3.0), "32 channels of a group are not many"
    assert cost_of(96, 64, 3, groups=2) == ("grouped", -3.0)
    assert cost_of(64, 240, 3, groups=2) == ("grouped", 3.0), "what is given does not count"
    assert cost_of(16, 64, 3, groups=4) == ("grouped", 0.0), "few"


def test_gradients_of_groups_are_faster_channels_first_where_windows_go_in_steps() -> None:
    for channels in (16, 64, 240):
        by_one = cost_of(channels, 64, 3, groups=4, gradients="both")[1]
        by_two = cost_of(channels, 64, 3, groups=4, gradients="both", stride=2)[1]
        assert by_one is not None and by_one > 0 and by_two == -2.0


def test_little_speaks_for_a_copy_where_windows_go_in_steps() -> None:
    _, by_one = cost_of(64, 64, 3)
    _, by_two = cost_of(64, 64, 3, stride=2)
    assert by_one is not None and by_two is not None and 0 < by_two < by_one
    assert cost_of(64, 64, 3, "bf16", stride=2) == cost_of(64, 64, 3, "bf16")


def test_the_gradient_of_a_large_depthwise_weight_is_slow_channels_last() -> None:
    _, alone = cost_of(64, 64, 7, groups=64, gradients="weight")
    _, both = cost_of(64, 64, 7, groups=64, gradients="both")
    assert alone is not None and both is not None and alone < both < -40
    for window, dtype in ((5, "f32"), (7, "bf16")):
        _, cost = cost_of(64, 64, window, dtype, groups=64, gradients="weight")
        assert cost is not None and cost > 0
