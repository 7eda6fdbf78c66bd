"""What went wrong is said in a few lines, with the one of the user's that it is about."""

from __future__ import annotations

import pytest
import torch

from cuesta.command import main
from cuesta.explain.errors import first_lines


def failing(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, torch.ones(4, 4))


def test_dynamo_says_where_and_no_more() -> None:
    with pytest.raises(Exception, match="fake tensor") as caught:
        torch.compile(failing, backend="eager")(torch.ones(2, 5))
    told = first_lines(caught.value)
    assert "must have same reduction dim" in told and told.endswith(
        "return torch.nn.functional.linear(x, torch.ones(4, 4))"
    )
    assert "test_errors.py" in told and len(told.splitlines()) == 4
    assert not any(word in told for word in ("Hint", "debug context", "https", "TORCHDYNAMO", "^^"))


def test_the_error_inside_is_told() -> None:
    def backend(gm: torch.fx.GraphModule, inputs: object) -> object:
        raise ValueError("no such thing\n\n  of this kind")

    with pytest.raises(Exception, match="no such thing") as caught:
        torch.compile(failing, backend=backend)(torch.ones(2, 4))
    assert first_lines(caught.value).startswith("ValueError: no such thing\n  of this kind")
    assert first_lines(KeyError(3)) == "KeyError: 3" and first_lines(ValueError()) == "ValueError: "


def test_a_width_is_a_width(capsys: pytest.CaptureFixture[str]) -> None:
    for width in ("0", "-3", "5", "wide", "3.4"):
        with pytest.raises(SystemExit):
            main(["explain", "model.py", "--width", width])
        assert "is no whole number from 20 on" in capsys.readouterr().err or width == "-3"
