"""Who makes the kernels of a device."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from cuesta.dialects.core.devices import CPU, TRAITS, DeviceTraits, traits_of_device
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.extension import Extension, extended
from cuesta.targets.lookup import device_types, obstacle, running_on, target_of
from cuesta.targets.target import Target


class Mine(Target):
    name = "mine"
    devices = ("cpu", "xpu")
    traits = DeviceTraits(atomics=True)

    def obstacle(self, device: str) -> str | None:
        return f"{device} today" if device.startswith("xpu") else None


class Other(Target):
    name = "other"
    devices = ("xpu",)


def test_ours_are_found_by_the_type_of_device() -> None:
    assert target_of("cpu").name == "cpu" and target_of("cuda:1").name == "triton"
    assert target_of("cuda:0") is target_of("cuda:1")
    assert device_types() == ("cpu", "cuda")


@pytest.mark.parametrize("kind", TRAITS)
def test_what_passes_know_of_a_device_is_what_its_target_says(kind: str) -> None:
    assert target_of(kind).traits is TRAITS[kind]


def test_a_target_of_an_extension_is_there_in_its_scope() -> None:
    with extended(Extension("mine", targets=[Mine()])):
        assert target_of("cpu").name == target_of("xpu:2").name == "mine" and target_of("cuda").name == "triton"
        assert traits_of_device("cpu").atomics and device_types() == ("cpu", "cuda", "xpu")
        assert obstacle("cpu") is None and obstacle("xpu:1") == "xpu:1 today"
    assert target_of("cpu").name == "cpu" and traits_of_device("cpu") is CPU


def test_two_targets_for_one_type_of_device_are_named() -> None:
    with (
        extended(Extension("one", targets=[Mine()]), Extension("two", targets=[Other()])),
        pytest.raises(
            CuestaError, match=r"of type xpu: mine \(.*test_lookup.py:\d+\) and other \(.*test_lookup.py:\d+\)"
        ),
    ):
        target_of("xpu")


def test_a_target_without_facts_of_its_own_leaves_those_of_the_device() -> None:
    other = Other()
    other.devices = ("cpu",)
    with extended(Extension("other", targets=[other])):
        found = target_of("cpu")
        assert found.name == "other" and len({found, target_of("cpu")}) == 1
        assert traits_of_device("cpu") is CPU


def test_a_device_that_nobody_is_for() -> None:
    assert obstacle("xpu:0") == "xpu:0"
    with pytest.raises(CuestaError, match="no target is for the device xpu:0; there are some for cpu, cuda"):
        target_of("xpu:0")


def test_triton_is_told_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "triton" else find(name))
    assert obstacle("cuda:0") == "cuda:0 without Triton; `pip install triton` brings it"


def test_the_interpreter_is_for_every_device_when_it_is_asked_for() -> None:
    with running_on("reference"):
        assert target_of("cpu").name == target_of("cuda:0").name == "reference" and obstacle("cuda:0") is None
        assert traits_of_device("cpu") is CPU, "the kernels are those of the device"
        with running_on("device"):
            assert target_of("cpu").name == "cpu"
    assert target_of("cpu").name == "cpu"


def test_who_finds_a_program_in_the_cache_needs_no_compiler() -> None:
    code = (
        "import sys\n"
        "from cuesta.targets import lookup, program, target\n"
        "assert lookup.obstacle('cpu') is None and lookup.target_of('cuda').name == 'triton'\n"
        "heavy = {'xdsl', 'llvmlite', 'triton', 'torch', 'sympy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=None)
