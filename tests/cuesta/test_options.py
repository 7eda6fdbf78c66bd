"""Wrong modes and options are told clearly; right ones arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuesta.options import MODES, OptionError, Options


def test_defaults() -> None:
    assert Options.parse() == Options()
    assert Options.parse(None, {}) == Options.parse("default")


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_torch_compile(mode: str) -> None:
    assert Options.parse(mode).mode == mode


def test_a_mode_among_the_options() -> None:
    """torch.compile refuses a mode beside options."""
    assert Options.parse(None, {"mode": "reduce-overhead", "trace": True}) == Options("reduce-overhead", trace=True)
    assert Options.parse("max-autotune", {"mode": "max-autotune"}).mode == "max-autotune"
    with pytest.raises(OptionError, match="the mode is given twice, as 'default' and as 'max-autotune'"):
        Options.parse("default", {"mode": "max-autotune"})


def test_which_modes_capture() -> None:
    assert [mode for mode in MODES if Options.parse(mode).captures] == ["reduce-overhead", "max-autotune"]
    assert Options.parse(None, {"cuda_graphs": True}).captures


def test_values_arrive() -> None:
    options = Options.parse(None, {"dump": Path("/tmp/levels"), "verify": "each", "trace": True, "pipeline": "a,b"})
    assert options == Options(dump="/tmp/levels", verify="each", trace=True, pipeline="a,b")


def test_seconds_may_be_whole_or_without_end() -> None:
    assert Options.parse(None, {"extension_seconds": 5}).extension_seconds == 5.0
    assert Options.parse(None, {"extension_seconds": float("inf")}).extension_seconds == float("inf")


def test_unknown_mode_names_the_valid_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown mode 'max_autotune'; did you mean 'max-autotune'\?") as caught:
        Options.parse("max_autotune")
    assert all(mode in str(caught.value) for mode in MODES)


def test_unknown_option_names_the_valid_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown option 'verfy'; did you mean 'verify'\?") as caught:
        Options.parse(None, {"verfy": "each"})
    for name in ("dump", "pipeline", "verify", "random", "emulate_precision_casts", "trace"):
        assert f"\n    {name} (" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trace": 1}, "option 'trace' must be True or False, not 1 of type int"),
        ({"cache": None}, "option 'cache' must be True or False, not None of type NoneType"),
        ({"random": "none"}, "option 'random' must be one of 'device', 'eager', 'philox', not 'none' of type str"),
        ({"verify": "always"}, "option 'verify' must be one of 'boundaries', 'each', not 'always'"),
        ({"dump": 3}, "option 'dump' must be a string that is not empty, not 3 of type int"),
        ({"dump": ""}, "option 'dump' must be a string that is not empty, not ''"),
        ({"pipeline": ["a"]}, "option 'pipeline' must be a string that is not empty"),
        ({"extension_seconds": 0}, "option 'extension_seconds' must be a number of seconds above 0, or inf, not 0 of"),
        (
            {"extension_seconds": float("nan")},
            "'extension_seconds' must be a number of seconds above 0, or inf",
        ),
        ({"extension_seconds": True}, "'extension_seconds' must be a number of seconds above 0, or inf, not True of"),
    ],
)
def test_wrong_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.parse(None, options)
    assert message in str(caught.value)


def test_options_that_are_no_dictionary() -> None:
    with pytest.raises(OptionError, match="options must be a dictionary, not 'trace' of type str"):
        Options.parse(None, "trace")  # pyright: ignore[reportArgumentType]
