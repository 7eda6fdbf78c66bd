"""Collects the `.mlir` files under tests/filecheck/ as tests; CONTRIBUTING.md describes their headers.

An example that passes change is tested twice: for the text that comes out, and for what the program computes.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import random
import re
import shlex
import sys
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser as CheckParser

from cuesta.context import make_context
from cuesta.dialects.core.fingerprint import structurally_equal
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.opt import parse_module, run_captured, split_input
from tests.support.selection import choose
from tests.support.turns import take_turns, whose_turn

# A program from an earlier run would hide a bug. Tests of the cache turn it on, in a folder of their own.
os.environ["CUESTA_CACHE"] = "0"
# Several workers share the cores: a thread that has nothing to do must not spin (read when torch loads OpenMP).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


LONG = (
    "benchmarks",
    "cuesta/bisecting",
    "cuesta/cuda_graphs/test_parts.py",
    "cuesta/replaying/test_repro.py",
    "cuesta/test_fallbacks.py",
    "cuesta/test_tuning.py",
    "cuesta/test_validating.py",
    "dialects/sym/test_properties.py",
    "e2e",
    "fuzz",
    "lowering/aten/test_grid_sampling.py",
    "lowering/aten/test_random_numbers.py",
    "manual",
    "targets/cpu/test_division.py",
    "targets/cpu/test_vector_math.py",
    "targets/triton",
    "test_tables.py",
    "transforms/reductions/test_scans_in_parts.py",
)
"""Where no test is run between edits: together they take longer than the minute that `make test-fast` has."""
CORE = ("test_backend.py", "test_corners.py", "test_levels.py", "test_load.py", "test_storages.py", "test_texts.py")
"""Of whole programs, what is run all the same."""


def is_long(path: Path) -> bool:
    """Whether every test of a file takes long."""
    here = Path(__file__).parent
    place = path.relative_to(here).as_posix() if path.is_relative_to(here) else ""
    return place.startswith(LONG) and not (place.startswith("e2e/") and path.name in CORE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is long is not even imported where nothing slow is asked for: that takes each worker seconds."""
    wanted = re.split(r"\s+and\s+", config.option.markexpr)
    return True if "not slow" in wanted and collection_path.suffix == ".py" and is_long(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what is long as slow, and what is one of many, or whose turn it is not, as thorough."""
    choose(items)
    take_turns(items, whose_turn(config.args))
    for item in items:
        if is_long(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Takes from every test what it would spend on the collector: all that was imported lives on, and looking through
    it for cycles takes 0.2 s each time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    trace = logging.getLogger("torch.__trace")
    add_handler = trace.addHandler
    trace.addHandler = lambda hdlr: None if type(hdlr).__module__.startswith("_pytest.") else add_handler(hdlr)


_TRIMMED = set[str]()


def _trim(name: str) -> Any:
    """A module of torch's that is imported and was not asked for before."""
    if name in _TRIMMED or name not in sys.modules:
        return None
    _TRIMMED.add(name)
    return sys.modules[name]


def leave_out_what_torch_does_for_its_logs() -> None:
    """What torch measures and prints for its own logs is left out of each of its modules as soon as it is imported.

    After each capture torch flushes the caches of the processor, 17 to 63 ms, to log how long the guards take, and
    collects. Every graph it prints several times over, as soon as anybody reads its trace: pytest would, of every test.
    """
    if dynamo := _trim("torch._dynamo"):
        dynamo.config.run_gc_after_compile = False
        dynamo.config.fake_tensor_cache_enabled = False
    guards = _trim("torch._dynamo.guards")
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0
    utils = _trim("torch._dynamo.utils")
    if hasattr(utils, "_scrubbed_inductor_config_for_logging"):
        utils._scrubbed_inductor_config_for_logging = lambda: None  # all of TorchInductor's settings as JSON, 3 ms
    # Twice a capture AOTAutograd makes six empty tensors, each of which goes through all its modes: 4 ms.
    rng = _trim("torch._decomp.decompositions_for_rng")
    if hasattr(rng, "PhiloxState"):
        state, empty = rng.PhiloxState, sys.modules["torch"].tensor(())

        def reset(self: Any) -> None:
            self.seed = self.base_offset = empty
            self.relative_offset, self.offset_advanced_at_least_once = 0, False

        state.reset = reset
    # A seed for a device that torch is not built for would be kept, with the lines of the stack: 1 ms each.
    for kind in ("cuda", "xpu", "mtia"):
        device: Any = sys.modules.get(f"torch.{kind}")
        for name in (f"torch.{kind}", f"torch.{kind}.random"):
            module = _trim(name)
            if device is not None and not device._is_compiled() and hasattr(module, "_lazy_call"):
                setattr(module, "_lazy_call", lambda *_, **__: None)  # noqa: B010 - modules have no variables


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> None:
    """What a test draws depends on its name alone: a failure comes back. Looking for failures is the fuzzers' work."""
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    if torch := sys.modules.get("torch"):
        leave_out_what_torch_does_for_its_logs()
        torch.manual_seed(seed)


@pytest.fixture
def products_are_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever processor, products are a library's of the same type: what a test counts does not depend on where it
    runs.
    """
    from cuesta.targets.cpu import facts

    monkeypatch.setattr(facts, "facts_of_products", dict)
    monkeypatch.setattr(facts, "facts_of_wide_products", dict)


@pytest.fixture(scope="module")
def old_objects_left_alone() -> None:
    """Collections look through what the tests of a module make: what tests before them left takes seconds each time."""
    gc.collect()
    gc.freeze()


pytest.register_assert_rewrite("tests.support.levels", "tests.support.text")

_DIRECTIVE = re.compile(r"^//\s*(RUN|ROUNDTRIP)\b:?[ \t]*(.*)$", re.MULTILINE)
_SLOW = re.compile(r"^//\s*SLOW\b", re.MULTILINE)
_CHECK = re.compile(r"^\s*//\s*CHECK\b", re.MULTILINE)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".mlir" and "filecheck" in file_path.parts:
        return MlirFile.from_parent(parent, path=file_path)
    return None


class MlirFile(pytest.File):
    """One `.mlir` file: a test for each of its RUN and ROUNDTRIP lines."""

    def collect(self) -> Iterator[pytest.Item]:
        text = self.path.read_text(encoding="utf-8")
        found = list(_DIRECTIVE.finditer(text))
        if not found:
            yield NothingToRun.from_parent(self, name="header")
        for number, directive in enumerate(found):
            suffix = f"-{number}" if len(found) > 1 else ""
            if directive[1] == "RUN":
                command = directive[2].strip()
                yield RunItem.from_parent(self, name=f"run{suffix}", command=command)
                if passes := _passes_of(command):
                    same = EquivalenceItem.from_parent(
                        self, name=f"same{suffix}", passes=passes, machine=_option_of(command, "--machine")
                    )
                    if _SLOW.search(text):
                        same.add_marker(pytest.mark.slow)
                    yield same
            else:
                yield RoundTripItem.from_parent(self, name=f"roundtrip{suffix}")


class MlirFailure(Exception):
    """A `.mlir` test failed; the message says all there is to say."""


class MlirItem(pytest.Item):
    """What the two kinds of tests share."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        if isinstance(excinfo.value, MlirFailure):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}::{self.name}"


class NothingToRun(MlirItem):
    """A file that tests nothing is a mistake."""

    def runtest(self) -> None:
        raise MlirFailure(f"{self.path} has neither a RUN nor a ROUNDTRIP line")


class RunItem(MlirItem):
    """`// RUN: cuesta-opt %s …`, checked by the file's CHECK lines; `// RUN: not cuesta-opt …` expects an error."""

    def __init__(self, *, command: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # pyright: ignore[reportArgumentType]  # what pytest passes on
        self.command = command

    def runtest(self) -> None:
        command, pipe, rest = self.command.partition("|")
        check_arguments = shlex.split(rest)
        if pipe and check_arguments[:2] != ["filecheck", "%s"]:
            raise MlirFailure(f"RUN: only `| filecheck %s` may follow, not {rest.strip()!r}")
        words = [str(self.path) if word == "%s" else word for word in shlex.split(command)]
        expect_error = words[:1] == ["not"]
        words = words[expect_error:]
        if words[:1] != ["cuesta-opt"]:
            raise MlirFailure(f"RUN: expected [not] cuesta-opt, not {self.command!r}")
        status, output, errors = run_captured(words[1:])
        if expect_error and status == 0:
            raise MlirFailure(f"{self.command}\nan error was expected, but it passed:\n{output}")
        if not expect_error and status != 0:
            raise MlirFailure(f"{self.command}\nexit status {status}:\n{errors}")
        text = self.path.read_text(encoding="utf-8")
        prefixes = _check_prefixes(check_arguments[2:])
        if prefixes == ["CHECK"] and not _CHECK.search(text):
            if expect_error:  # an expected error that nobody looks at may be any error
                raise MlirFailure("RUN: not … needs CHECK lines that say which error")
            return
        run_filecheck(self.path, errors if expect_error else output, prefixes)


class EquivalenceItem(MlirItem):
    """The passes of a RUN line leave what the program computes as it was: the interpreter runs it before and after."""

    def __init__(self, *, passes: str, machine: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # pyright: ignore[reportArgumentType]  # what pytest passes on
        self.passes = passes
        self.machine = machine

    def runtest(self) -> None:
        # Imports torch: only those who test programs wait for that.
        from tests.support.equivalence import NotEquivalentError, check_example

        try:
            check_example(self.path, self.passes, self.machine)
        except NotEquivalentError as error:
            raise MlirFailure(f"{self.path}\n{error}") from error


class RoundTripItem(MlirItem):
    """`// ROUNDTRIP`: what is printed parses back to the same program and prints the same, in both forms."""

    def runtest(self) -> None:
        for chunk in split_input(self.path.read_text(encoding="utf-8")):
            module = parse_module(make_context(), chunk, str(self.path))
            module.verify()
            text = print_text(module)
            for form, source in (("own", text), ("generic", print_text(module, generic=True))):
                again = CuestaParser(make_context(), source, f"<printed in {form} form>").parse_module()
                again.verify()
                if not structurally_equal(module, again):
                    raise MlirFailure(f"{self.path}: another program comes back from its {form} form:\n{source}")
                if print_text(again) != text:
                    raise MlirFailure(f"{self.path}: the {form} form prints differently:\n{text}\n{print_text(again)}")


def _passes_of(command: str) -> str:
    """The passes that a RUN line asks for; empty when an error is expected."""
    words = shlex.split(command.partition("|")[0])
    if words[:1] != ["cuesta-opt"]:
        return ""
    return _option_of(command, "-p", "--passes")


def _option_of(command: str, *names: str) -> str:
    """What a RUN line says after an option; empty when it does not have it."""
    words = shlex.split(command.partition("|")[0])
    return next((after for word, after in pairwise(words) if word in names), "")


def _check_prefixes(arguments: list[str]) -> list[str]:
    prefixes = [word.partition("=")[2] for word in arguments if word.startswith(("--check-prefix", "-check-prefix"))]
    if len(prefixes) != len(arguments):
        raise MlirFailure(f"RUN: filecheck's only option here is --check-prefix=NAME, not {arguments}")
    return prefixes or ["CHECK"]


def run_filecheck(path: Path, output: str, prefixes: list[str]) -> None:
    """Match the output against the file's CHECK lines.

    Errors: MlirFailure.
    """
    options = Options(match_filename=str(path), check_prefixes=prefixes)
    matcher = Matcher(options, FInput("<output>", output), CheckParser.from_opts(options))
    matcher.stderr = io.StringIO()
    if matcher.run() != 0:
        raise MlirFailure(f"{path}\n{matcher.stderr.getvalue()}\n--- the output was:\n{output}")
