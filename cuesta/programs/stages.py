"""A program between two stages, as an object: printed, edited, run, taken on. `cuesta.lower` gives the first.

Objects never change. What goes on from one, or is edited, is another; stages run when somebody looks at what they give.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import torch

from cuesta.options import Options
from cuesta.programs.header import Header
from cuesta.programs.inputs_of import copies_of
from cuesta.programs.loading import function_of, read, read_text
from cuesta.record import CompileRecord

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.pipeline import Stage

LEVELS: Final = ("aten", "loops", "kernel", "host")


class StageError(ValueError):
    """A stage or a level that a program cannot be taken to, or an edit that does not fit its text."""


@dataclass(frozen=True)
class Call:
    """How what a caller gives becomes the arguments of `@main`, for a program that `cuesta.lower` captured."""

    given: tuple[Any, ...]
    """What a caller gives, flat: numbers as they were, since the program holds them; for tensors, their class."""
    sources: tuple[int | None, ...]
    """For each argument of `@main`, which of them it is; None for what was there already, as weights are."""
    captured: tuple[Any, ...]
    """What each argument was when the program was captured."""


class Program:
    """A program at one place among the stages.

    >>> import torch, cuesta
    >>> x = torch.tensor([1.0, 2.0])
    >>> loops = cuesta.lower(lambda x: x.exp() + 1, x).loops
    >>> loops.stage, loops.remaining[:2]
    ('aten-to-loops', ('eliminate-views', 'cse'))
    >>> loops.until("fuse-nests").edit("elem.exp", "elem.neg").run(x)
    (tensor([ 0., -1.]),)
    """

    def __init__(
        self,
        module: ModuleOp | Callable[[], ModuleOp],
        header: Header,
        remaining: Sequence[Stage],
        options: Options,
        *,
        name: str = "",
        text: str | None = None,
        call: Call | None = None,
    ) -> None:
        """For `read`, `cuesta.lower` and the methods below."""
        self._source = module
        self._header = header
        self._stages = tuple(remaining)
        self._options = options
        self._name = name
        self._given_text = text
        self._call = call

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None) -> Program:
        """The program in a file of a dump, or one that somebody wrote, where its text says that it stands.

        Errors: as `cuesta.load`.
        """
        return cls._of_text(read_text(path), os.fspath(path), Options.parse(None, options), options or {}, None)

    @classmethod
    def of_module(cls, module: ModuleOp, *, options: Mapping[str, Any] | None = None) -> Program:
        """A program that builders made, where it stands: it has the stages before it that follow from its level.

        Errors: CuestaError for one that breaks the rules of its level.
        """
        from cuesta.dialects.core.locations import print_text

        return cls._of_text(print_text(module), "<built>", Options.parse(None, options), options or {}, None)

    @classmethod
    def _of_text(cls, text: str, name: str, options: Options, given: Mapping[str, Any], call: Call | None) -> Program:
        from cuesta.staging import stages_for

        with in_force(options, text, name):
            module, header, stages = read(text, name, options, given=given)
            stages = stages_for(module, options) if stages is None else stages
        if header.remaining is None:
            header = replace(header, remaining=tuple(stage.name for stage in stages))
        return cls(module, header, stages, options, name=name, text=text, call=call)

    # -- what it is ---------------------------------------------------------------------------------------------------

    @cached_property
    def _module(self) -> ModuleOp:
        """The program itself, which nobody else gets to see."""
        return self._source() if callable(self._source) else self._source

    @property
    def module(self) -> ModuleOp:
        """A copy of the program as xDSL has it, for builders and rewriters: `with_module` takes it back."""
        return self._module.clone()

    @cached_property
    def text(self) -> str:
        """The program as text, with the lines at its top that say which stages it has before it."""
        from cuesta.dialects.core.locations import print_text

        return f"{self._header}{print_text(self._module)}"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<a program after {self.stage}, with {len(self._stages)} stages before it>"

    @cached_property
    def level(self) -> str:
        """`aten`, `loops`, `kernel` or `host`."""
        from cuesta.pipeline import level_of

        return level_of(self._module)

    @property
    def header(self) -> Header:
        """The lines at the top of its text."""
        return self._header

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages before it, in order."""
        return self._stages

    @property
    def stage(self) -> str:
        """The last stage that ran: `import` when none has, `load` for a text that does not say."""
        return self._header.after

    @property
    def remaining(self) -> tuple[str, ...]:
        """The stages before it, in order, as `until` names them: of a pass that runs twice, the second is `cse-2`."""
        return tuple(stage.label for stage in self._stages)

    # -- other programs -----------------------------------------------------------------------------------------------

    def with_text(self, text: str) -> Program:
        """The program that another text holds. It has the stages before it that the text's first lines say; without
        them, those from its level on. Ops that were here before come from the lines of the model that they came from.

        Errors: CuestaError or xDSL's ParseError with the line, for a text that is refused.
        """
        name = self._name if self._name.startswith("<") else f"<{self._name or self.stage}, edited>"
        program = self._of_text(text, name, self._options, {}, self._call)
        keep_origins(self._module, program._module)
        return program

    def edit(self, old: str, new: str, *, count: int = 1) -> Program:
        """The program in whose text `old` is `new`, which it must be there for just `count` times.

        Errors: StageError when it is not; else as `with_text`.
        """
        there = self.text.count(old)
        if there != count:
            hint = "" if there or "\n" in old else _near_line(old, self.text)
            raise StageError(
                f"{old!r} stands in the text {there} times, not {count}: give more of it, or a count{hint}"
            )
        return self.with_text(self.text.replace(old, new))

    def with_module(self, module: ModuleOp) -> Program:
        """The program that a module is, held to the rules of its level; it has the same stages before it.

        Errors: CuestaError.
        """
        from cuesta.dialects.core.locations import print_text

        return self.with_text(f"{self._header}{print_text(module)}")

    def next(self) -> Program:
        """The program after its next stage. Errors: StageError when there is none."""
        if not self._stages:
            raise StageError(f"no stage is left after {self.stage}")
        return self._after(1)

    def until(self, stage: str) -> Program:
        """The program after a stage, as `remaining` or `cuesta-opt --list-stages` name it.

        Errors: StageError for a stage that is past, or that there is not.
        """
        return self._after(position_of(stage, self._stages, self.stage) + 1)

    def _after(self, count: int) -> Program:
        if count == 0:
            return self
        stages, names = self._stages[:count], [stage.name for stage in self._stages[:count]]
        header = self._header.then(names)
        assert header is not None, "the header names the stages that are left"
        return Program(
            lambda: self._run_stages(stages),
            header,
            self._stages[count:],
            self._options,
            name=self._name,
            text=self._given_text,
            call=self._call,
        )

    def taking_arguments(self) -> Program:
        """The same program, which is given the arguments of `@main` themselves, weights among them."""
        program = Program(
            self._source, self._header, self._stages, self._options, name=self._name, text=self._given_text
        )
        program.__dict__.update({name: value for name, value in self.__dict__.items() if name == "_module"})
        return program

    def _run_stages(self, stages: Sequence[Stage]) -> ModuleOp:
        from cuesta.staging import run_stages

        module = self._module.clone()
        with in_force(self._options, self._given_text, self._name):
            run_stages(module, replace(self._options, dump=None), CompileRecord("inference"), stages=stages)
        return module

    def _at(self, level: str) -> Program:
        at = next((at for at, one in enumerate(self._stages) if _begun(one) == level), None)
        if self.level == level and (level != "host" or at is None):
            return self
        if at is not None and (level != "loops" or self.level == "aten"):
            return self._after(at + 1)
        past = LEVELS.index(level) < LEVELS.index(self.level)
        said = "that level is past" if past else "no stage that is left leads there"
        raise StageError(f"there is no {level!r} of a program at {self.level!r}, after {self.stage}: {said}")

    @property
    def aten(self) -> Program:
        """The program at the level `aten`: itself. Errors: StageError when that is past."""
        return self._at("aten")

    @property
    def loops(self) -> Program:
        """The program where `loops` begins. Errors: StageError when that is past."""
        return self._at("loops")

    @property
    def kernel(self) -> Program:
        """The program where `kernel` begins. Errors: StageError when that is past."""
        return self._at("kernel")

    @property
    def host(self) -> Program:
        """The program where `host` is complete: buffers are in their places. Errors: StageError when that is past."""
        return self._at("host")

    @cached_property
    def source(self) -> Sources:
        """The texts that are generated of it after all of its stages; nothing is compiled."""
        from cuesta.code_generation import texts_of
        from cuesta.targets.lookup import running_on

        last = self._after(len(self._stages))
        with in_force(self._options, self._given_text, self._name), running_on(self._options.target):
            return Sources(texts_of(last.module))

    # -- running ------------------------------------------------------------------------------------------------------

    def arguments(self, *inputs: Any) -> list[Any]:
        """The arguments of `@main` for what a caller gives: of a captured program, what the function was given, in its
        order, or nothing, for what it was captured with; of any other, the arguments themselves.

        Errors: TypeError when there are not as many.
        """
        from torch.utils._pytree import tree_leaves

        if self._call is None:
            return list(inputs)
        if not inputs:
            return list(self._call.captured)
        leaves = tree_leaves(inputs)
        if len(leaves) != len(self._call.given):
            count = len(self._call.given)
            raise TypeError(f"the function was captured with {count} tensors and numbers, got {len(leaves)}")
        for at, (leaf, was) in enumerate(zip(leaves, self._call.given, strict=True)):
            is_tensor = was is torch.Tensor
            if isinstance(leaf, torch.Tensor) != is_tensor or (not is_tensor and leaf != was):
                said = "a tensor" if is_tensor else repr(was)
                got = "a tensor" if isinstance(leaf, torch.Tensor) else repr(leaf)
                raise TypeError(f"input {at} was {said} when the function was captured, and is {got}: lower it again")
        pairs = zip(self._call.sources, self._call.captured, strict=True)
        return [captured if at is None else leaves[at] for at, captured in pairs]

    def run(self, *inputs: Any, seed: int = 0, precise: bool = False) -> tuple[Any, ...]:
        """What the reference interpreter computes: the results of `@main`, on the CPU. It draws the random numbers of
        a seed; with `precise` it computes in float64, and rounds nothing. Inputs that the program writes to are copied.

        Errors: InterpreterError when an input is of another type, or the program breaks a rule; IndexError where the
        program would raise it; TypeError for another number of inputs.
        """
        from cuesta.targets.reference import run

        copies = copies_of(self.arguments(*inputs))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return tuple(run(self._module, copies, precise=precise))

    def compile(self) -> Callable[..., tuple[Any, ...]]:
        """The program as machine code, after the stages that it has before it: a function that takes what `run` does,
        and gives a tuple of its results. As a text that somebody edited, it is checked where it cannot be believed.

        Errors: CuestaError, OptionError; those of the function are `cuesta.load`'s.
        """
        name, text = (self._name, self._given_text) if self._given_text is not None else (f"<{self.stage}>", self.text)
        with in_force(self._options):
            function = function_of(self.module, self._header, self._stages, text or "", name, self._options)
        return lambda *inputs: function(*self.arguments(*inputs))


@dataclass(frozen=True)
class Sources:
    """What is generated of a program: the wrapper in Python, LLVM IR, and a text in Triton for each kernel of a GPU."""

    texts: Mapping[str, str]
    """By name, as the files of a dump."""

    @property
    def wrapper(self) -> str:
        """The Python function that calls libraries and launches kernels."""
        return self.texts["wrapper.py"]

    @property
    def llvm(self) -> str:
        """The LLVM IR of kernels for the CPU, and of the code that launches those for a GPU; empty without any."""
        return self.texts.get("kernels.ll", "")

    @property
    def triton(self) -> Mapping[str, str]:
        """The texts of kernels for a GPU, by file."""
        return {name: text for name, text in self.texts.items() if name not in ("wrapper.py", "kernels.ll")}

    def __str__(self) -> str:
        return "\n".join(f"=== {name}\n{text.rstrip()}\n" for name, text in self.texts.items())


def position_of(name: str, stages: Sequence[Stage], after: str) -> int:
    """The position among `stages`, those left after the stage `after`, of the one that is called `name`.

    Errors: StageError, which says whether it is past, left out, or unknown, and then what is near.
    """
    from cuesta.pipeline import STAGES

    labels = [stage.label for stage in stages]
    if name in labels:
        return labels.index(name)
    every = [stage.label for stage in STAGES]
    if name in every:
        rest = [every.index(label) for label in labels if label in every]
        if rest and every.index(name) > min(rest):
            raise StageError(f"the stage {name!r} is not among those of this program: options or its text leave it out")
        raise StageError(f"the stage {name!r} is past: the program stands after {after}")
    near = difflib.get_close_matches(name, dict.fromkeys([*labels, *every]), n=1)
    hint = f", did you mean {near[0]!r}?" if near else f"; left are: {', '.join(labels) or 'none'}"
    raise StageError(f"there is no stage {name!r}{hint}")


def keep_origins(before: ModuleOp, after: ModuleOp) -> None:
    """Lets each op of a text that was edited come from where it came from before, besides its place in the text."""
    from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, UnknownLoc

    from cuesta.dialects.core.locations import origin_of
    from cuesta.programs.matching_ops import Matching

    for ours, theirs in Matching(before, after).pairs():
        place, origin = theirs.location, origin_of(ours.location)
        edited = isinstance(origin, FileLineColLoc) and origin.filename.data.startswith("<")
        if isinstance(place, FileLineColLoc) and not isinstance(origin, UnknownLoc) and not edited:
            theirs.location = CallSiteLoc(place, origin)


def _begun(stage: Stage) -> str:
    """The level that begins after a stage; `host` is complete then."""
    return "" if stage.begins is None else stage.begins.level.partition(",")[0]


@contextmanager
def in_force(options: Options, text: str | None = None, name: str = "") -> Generator[None]:
    """The `with` block in which the extensions of options are in force, and what fails is said of the text `name`."""
    from cuesta.dialects.core.deadline import allowing
    from cuesta.dialects.core.extension import only
    from cuesta.extensions import chosen, seconds_for
    from cuesta.programs.texts import errors_of

    told = nullcontext() if text is None else errors_of(text, name)
    with only(chosen(options.extensions)), allowing(seconds_for(options.extension_seconds)), told:
        yield


def _near_line(old: str, text: str) -> str:
    lines = {line.strip() for line in text.splitlines()}
    near = difflib.get_close_matches(old.strip(), lines, n=1, cutoff=0.4)
    return f"; there is: {near[0]}" if near else ""


__all__ = ["LEVELS", "Call", "Program", "Sources", "StageError", "in_force", "position_of"]
