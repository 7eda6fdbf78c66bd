"""Random contractions on machines of few processors, where a small one has waves of programs as a large one on an H200:
forms as they are chosen (stream-K among them), and as a text asks for. By both interpreters, against float64.
"""

from __future__ import annotations

import random

import pytest

from cuesta.dialects.core.machine import Machine, state_machine
from cuesta.targets.reference import random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.testing import compare
from tests.support.triton_interpreter import parse, run, to_host
from tests.support.triton_kernels import kernels_in
from tests.targets.triton.test_contractions import fused, product

pytest.importorskip("triton")
pytestmark = pytest.mark.slow


def drawn(draw: random.Random) -> tuple[str, dict[str, int], Machine]:
    """A product and what follows it, the choices of its nest, and a machine."""
    element = draw.choice(["f16", "bf16", "f32"])
    rows, columns = draw.choice([2, 16, 17, 33, 64, 65, 130]), draw.choice([8, 16, 24, 40, 72, 100, 130])
    points, batch = 8 * draw.choice([1, 2, 3, 8, 32, 128]), draw.choice([0, 0, 0, 2, 3])
    choices = {
        "rows": draw.choice([16, 32]),
        "columns": draw.choice([16, 32]),
        "depth": draw.choice([16, 32]),
        "warps": draw.choice([1, 4]),
        "stages": draw.choice([2, 3]),
        "group": draw.choice([1, 8]),
        **({"tf32": 1} if element == "f32" else {}),
    }
    side, extent = draw.choice([("rows", rows), ("columns", columns)])
    firsts = range(choices[side], extent - 1, choices[side])
    parts = [part for part in range(8, points, 8) if points % part == 0]
    if firsts and parts and draw.random() < 0.5:
        choices |= {"stream_k": extent - draw.choice(firsts), "part": draw.choice(parts)}
        choices |= {"stream_columns": 1} if side == "columns" else {}
        choices |= {"programs": draw.choice([1, 3])} if draw.random() < 0.5 else {}
    machine = Machine.of({"processors": draw.choice([1, 1, 2, 3]), "launch": draw.choice([16, 63550])})
    text = product(rows, columns, points, element, batch=batch, transposed=draw.random() < 0.4)
    return text, choices, machine


def check(seed: int) -> int:
    """Checks one; gives how many kernels it has."""
    text, choices, machine = drawn(random.Random(seed))
    module = fused(text, choices)
    state_machine(module, machine)
    host = to_host(module)
    inputs = random_inputs(parse(text))
    expected, truth = run_reference(parse(text), inputs), run_reference(parse(text), inputs, precise=True)
    for one in (run(module, inputs), run_reference(module, inputs), run_reference(host, inputs)):
        found = compare(f"{seed}", one[0], expected[0], truth[0], factor=3.0, ulps=8.0 if "bf16" in text else 4.0)
        assert found.passes, f"{choices} on {machine}: {found}"
    return len(kernels_in(host))


def test_a_few() -> None:
    """Some have their last rows or columns in parts: otherwise this test would say nothing."""
    assert sum(check(seed) >= 3 for seed in range(8)) >= 2


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 200))
def test_many(seed: int) -> None:
    check(seed)
