"""No pass changes what random programs compute: each is run before and after every stage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.context import make_context
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.replaying.comparing import keeps_bits
from cuesta.targets.reference import Watched
from tests.support.random_programs import changing_program, program


@pytest.mark.parametrize(
    "seeds", [range(1), *(pytest.param(range(k, k + 10), marks=pytest.mark.slow) for k in (1, 51, 101, 151))], ids=str
)
@pytest.mark.every(2)
def test_every_stage_keeps_the_meaning(seeds: range) -> None:
    for seed in seeds:
        check_stages(*program(seed), seed)


@pytest.mark.parametrize(
    "seeds",
    [range(1), *(pytest.param(seeds, marks=pytest.mark.slow) for seeds in (range(1, 2), range(300, 315)))],
    ids=str,
)
def test_writes_to_inputs_keep_their_meaning(seeds: range) -> None:
    for seed in seeds:
        check_stages(*changing_program(seed), seed)


def check_stages(function: Callable[..., object], inputs: list[Tensor], seed: int) -> None:
    """Checks that no stage of the pipeline changes what a function computes."""
    graph_module = make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)
    imported = import_graph(graph_module)
    module, context = imported.module, make_context()
    watched = Watched(module, inputs, constants=[tensor for _, tensor in imported.constants])
    for stage in STAGES:
        run_pipeline(context, module, [stage], verify_each=True)
        name = f"{stage.name} on the program of seed {seed}"
        watched.check(module, exact=keeps_bits(stage.name, module), pass_name=name)
