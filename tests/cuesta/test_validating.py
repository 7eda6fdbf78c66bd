"""`options={"validate": …}` and `cuesta validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import cuesta
from cuesta.command import main
from cuesta.options import OptionError, Options
from cuesta.validating.bounds import bounds_of
from cuesta.validating.errors import ValidationError
from cuesta.validating.kernels import CLOCK
from tests.support.seeded_faults import faults_named
from tests.support.seeding import Fault


def _compiled(function: Any, mode: str) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", options={"validate": mode}, fullgraph=True)


def _fault(name: str) -> Fault:
    return faults_named(name)[0]


def _padded(x: Any) -> Any:
    return torch.nn.functional.pad(x * 2, (1, 2), value=0.5).exp()


@pytest.mark.parametrize("mode", ["stages", "kernels"])
def test_what_is_right_passes(mode: str) -> None:
    def update(x: Any, y: Any) -> Any:
        y.add_(1)
        return torch.softmax(x, -1) @ y, x.sum()

    x, y = torch.randn(5, 7), torch.zeros(7, 3)
    call = _compiled(update, mode)
    for round in (1, 2):
        product, total = call(x, y)
        torch.testing.assert_close(product, torch.full((5, 3), float(round)))
        torch.testing.assert_close(total, x.sum())
    assert (y == 2).all(), "validation runs on copies: what is written to is written once a call"


def test_stages_raise_at_the_first_that_is_wrong() -> None:
    with _fault("mask-not-lowered").in_force(), pytest.raises(ValidationError) as caught:
        _compiled(_padded, "stages")(torch.randn(4, 5))
    text = str(caught.value)
    assert "loops-to-kernel changes what the program computes" in text
    assert "test_validating.py:" in text
    path = text.partition("cuesta bisect ")[2].strip()
    assert Path(path).read_text().startswith('// RUN: cuesta-opt %s -p "loops-to-kernel"')


def test_kernels_raise_where_machine_code_is_wrong() -> None:
    def greatest(x: Any) -> Any:
        return (-x.abs() - 1).amax(-1)

    with _fault("identity-zero").in_force(), pytest.raises(ValidationError) as caught:
        _compiled(greatest, "kernels")(torch.randn(6, 21))
    text = str(caught.value)
    assert "by the target cpu" in text and "test_validating.py:" in text
    path = Path(text.partition("cuesta bisect ")[2].strip())
    assert "kernel.func" in path.read_text()


def test_kernels_are_compared_in_samples_with_sizes_of_any_kind() -> None:
    before = CLOCK.compared
    call = torch.compile(lambda x: x.exp().sum(0) + 1, backend="cuesta", options={"validate": "kernels"}, dynamic=True)
    for rows in (3, 50):
        x = torch.randn(rows, 40)
        torch.testing.assert_close(call(x), x.exp().sum(0) + 1)
    assert CLOCK.compared > before


def test_option_is_checked() -> None:
    assert Options.parse(None, {"validate": "kernels"}).wants_stages
    with pytest.raises(OptionError, match="'stages'"):
        Options.parse(None, {"validate": "all"})


def test_bounds_say_how_they_were_proved() -> None:
    pytest.importorskip("z3")
    host = cuesta.lower(_padded, torch.randn(4, 5)).host
    found = bounds_of(host.module)
    assert found.counts["proved by z3"] == 1, "the padded read, by its mask"
    assert found.counts["proved by ranges"] >= 1
    assert not found.unproved
    assert "proved by z3" in str(found)
    beyond = host.text.replace("%1 - 1]", "%1]", 1) if "%1 - 1]" in host.text else None
    gather = cuesta.lower(lambda x, i: x[i] + 1, torch.randn(4, 5), torch.tensor([1, 2])).host
    assert bounds_of(gather.module).counts["not proved"] == 0
    assert beyond is None or bounds_of(host.with_text(beyond).module).counts["proved by z3"] == 0


def test_command_prints_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\ndef fn(x):\n    return torch.nn.functional.pad(x * 2, (1, 2), value=0.5).exp()\n"
        "inputs = (torch.ones(4, 5),)\n"
    )
    assert main(["validate", str(model)]) == 0
    out = capsys.readouterr().out
    assert "right" in out and "accesses of kernels, in bounds:" in out
    with _fault("mask-not-lowered").in_force():
        assert main(["validate", str(model)]) == 1
    assert "WRONG" in capsys.readouterr().out
