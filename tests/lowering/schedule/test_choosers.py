"""Who is asked for the schedule of a nest, and what is known of the machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from cuesta.dialects import kernel
from cuesta.dialects.core.extension import Extension, extended
from cuesta.dialects.core.machine import REFERENCE, Machine
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.schedule import ParallelAxis, Schedule
from cuesta.machine import detect
from cuesta.targets.cpu.facts import facts
from tests.support.lowering import to_kernel
from tests.support.text import parse

COPY = """
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o: tensor<64xf32>) {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}
"""


def grid_of(machine: Machine = REFERENCE) -> tuple[object, ...]:
    module = to_kernel(parse(COPY), machine=machine)
    (func,) = (op for op in module.body.ops if isinstance(op, kernel.FuncOp))
    return func.schedule.grid


def test_what_extensions_bring_is_asked_first_and_in_order() -> None:
    asked: list[tuple[str, Machine]] = []

    def declines(analysis: NestAnalysis, machine: Machine) -> Schedule | None:
        asked.append(("first", machine))
        return None

    def chooses(analysis: NestAnalysis, machine: Machine) -> Schedule | None:
        asked.append(("second", machine))
        return Schedule([ParallelAxis(axis) for axis in analysis.root.axes], choices={"parallel": 0, "unroll": 1})

    assert grid_of() == ()
    with extended(Extension("first", schedules=[declines]), Extension("second", schedules=[chooses])):
        assert grid_of(Machine(lanes=4)) == (64,)
    assert asked == [("first", Machine(lanes=4)), ("second", Machine(lanes=4))]
    with extended(Extension("first", schedules=[declines])):
        assert grid_of() == ()


def test_the_machine_at_hand_has_the_lanes_and_the_processors_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert detect() == detect(["cpu"]) == Machine.of(facts())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=100 + int(device[-1]))
    )
    assert detect(["cpu", "cuda:1", "cuda:2"]).processors == 101
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert detect(["cuda:1"]).processors == REFERENCE.processors
