"""Every law of the table is proved, and its rewrite fires on what it should and on nothing else."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.dialects.core.locations import print_text
from cuesta.laws import check_equation, check_rewrite
from cuesta.laws.listing import listing
from cuesta.laws.programs import Example, canonical, examples, parse
from cuesta.laws.proof import same
from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.table import LAWS, THEMES

pytestmark = pytest.mark.slow

EFFORT = 1.0 if os.environ.get("PROVE") == "whole" else 0.003
"""Of ten million pairs for a law of two operands; `make prove` takes all of them."""
A_FEW = LAWS[::9]
ONLY_KERNELS = {"pipeline": "loops-to-kernel,kernel-to-host,free-buffers"}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def name_of(law: Law) -> str:
    return law.name


@pytest.mark.parametrize("law", A_FEW, ids=name_of)
def test_a_few_laws_hold(law: Law) -> None:
    check_equation(law, effort=0.0005)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_every_law_is_proved(theme: str) -> None:
    pytest.importorskip("z3")
    for law in THEMES[theme]:
        proof = check_equation(law, effort=EFFORT)
        if law.kinds == "iu" and theme != "reductions":
            assert len(proof.by_z3) == 2, f"{law.name} is not proved for integers of 64 bits"


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_every_law_fires_where_it_should_and_nowhere_else(theme: str) -> None:
    for law in THEMES[theme]:
        check_rewrite(law)


@pytest.mark.parametrize("law", A_FEW, ids=name_of)
def test_a_few_laws_fire(law: Law) -> None:
    check_rewrite(law)


def test_there_are_enough_laws_and_no_name_twice() -> None:
    assert len(LAWS) >= 100
    assert [name for name, count in Counter(map(name_of, LAWS)).items() if count > 1] == []


def test_the_page_lists_the_laws() -> None:
    page = (Path(__file__).parents[3] / "docs" / "algebra.md").read_text()
    assert listing() in page, "run `python -m cuesta.laws.listing` and put what it prints into docs/algebra.md"


def compiled(text: str, folder: Path, name: str, inputs: list[Tensor]) -> Tensor:
    path = folder / name
    path.write_text(text)
    return cuesta.load(path, options=ONLY_KERNELS)(*inputs)[0]


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    "every", [pytest.param(3, id="a third"), pytest.param(1, id="all", marks=pytest.mark.thorough)]
)
def test_compiled_code_of_both_sides_gives_the_same(theme: str, every: int, tmp_path: Path) -> None:
    """As far as the CPU computes with the types: what it cannot, it refuses for both."""
    done = 0
    laws = THEMES[theme][::every]
    for law in laws:
        example = next(iter(examples(law)))
        if not agree(example, tmp_path):
            pytest.fail(f"compiled code of {law} is not the same on both sides")
        done += 1
    assert done == len(laws) > 0


def agree(example: Example, folder: Path) -> bool:
    inputs = example.inputs()
    after = print_text(canonical(parse(example.text()), example.law))
    one = compiled(example.text(), folder, "before.mlir", inputs)
    other = compiled(after, folder, "after.mlir", inputs)
    if not one.dtype.is_floating_point:
        return bool(same(one, other, example.law).all())
    # Functions are as exact as their rows say, and the machine's vectors are not torch's.
    return bool((same(one, other, example.law) | torch.isclose(one, other, rtol=1e-6, atol=0, equal_nan=True)).all())
