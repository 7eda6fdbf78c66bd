"""The pipeline: every stage by name, in order, with why it stands there."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from cuesta.dialects import aten, host, kernel
from cuesta.dialects.complete import COMPLETE, Promise
from cuesta.dialects.core.blame import accuse, blame, blame_late, without
from cuesta.dialects.core.contracts import Contract, check_level
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic, fail, verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.entry import entry_block, entry_function
from cuesta.dialects.core.extension import After, active
from cuesta.dialects.core.operation import same_state, state_of
from cuesta.dialects.core.whole_program import WholeProgramPass
from cuesta.dialects.levels import FUSED, HOST, KERNEL, LOOPS, SLICED
from cuesta.machine import devices_of
from cuesta.passes import parse_passes


@dataclass(frozen=True)
class Stage:
    """One pass in its place."""

    name: str
    """As on the command line: `fuse-nests` or `fuse-nests{explain=true}`."""
    why: str
    begins: Contract | None = None
    """The level that begins after this stage; its contract is checked then, always."""
    label: str = ""
    """What this place is called: the pass's name, but where that stands twice, another. No two stages share one."""
    extension: str = ""
    """The extension that it comes from."""
    where: str = ""
    """The fact of a device (`DeviceTraits`) that it needs: a program on no such device is left as it is, and the pass's
    file is not read. A pass that is told its `target` runs.
    """

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name.partition("{")[0])


STAGES: tuple[Stage, ...] = (
    Stage("accumulate-products", "a sum of products is seen here; below, it is a nest that reads two calls"),
    Stage("widen-products", "sums of products are one call, and casts around calls are nests that fuse with others"),
    Stage("aten-to-loops", "say what every op computes and where it reads; the rest becomes calls", begins=LOOPS),
    Stage("eliminate-views", "reads go through views, so that views cost nothing and hide nothing from fusion"),
    Stage("cse", "layers share masks, positions and casts; merge them before fusion copies them apart"),
    Stage("dce", "what only views kept alive goes, and with it users that would hold fusion back"),
    Stage("nest-concatenations", "of many parts none is masked, so fusion could not take them in; of two both are"),
    Stage("share-reductions", "equal layers are one by now, and no concatenation is part of what reads it yet"),
    Stage(
        "separate-biases", "what reads a library's result is a nest now; a kernel that follows adds the bias as well"
    ),
    Stage(
        "separate-points",
        "on a GPU: statistics of rows and what is made of their points may lie each as it likes",
        where="blocks",
    ),
    Stage(
        "measure-layouts",
        "library calls are final, and nobody has chosen a layout yet",
        where="tunes",
    ),
    Stage("assign-layouts", "library calls are final, and copies for their sake may still join nests"),
    Stage("multiply-patches", "how images lie is final, and what reads patches may still join other nests"),
    Stage("materialize-views", "what strides cannot say becomes a nest while fusion can still take it in"),
    Stage("shift-scans", "a scan that is read further on would be stored in between: fusion takes in no such reader"),
    Stage("fuse-nests", "bytes not moved are the profit; everything before prepares this, everything after profits"),
    Stage("nest-row-products", "who reads a product is final, and roundings between them can still go"),
    Stage("jam-parts", "fusion has made one nest of what a concatenation joins, and products have read what they can"),
    Stage("forward-stores", "fusion brought reads of a few elements next to what stores all of them"),
    Stage("elide-roundings", "fusion brought casts face to face that memory kept apart"),
    Stage("hoist-invariants", "what a row shares is computed once a row"),
    Stage("canonicalize", "laws apply to what is now side by side; what they make equal, cse finds"),
    Stage("cse", "inlined bodies repeat one another's loads, hoisted ones one another's constants", label="cse-2"),
    Stage("reuse-across-stages", "an exponential of the sum is not computed again for the quotient"),
    Stage("relax-accuracy", "it is known now what is only ever rounded to 16 bits"),
    Stage("dce", "outs that everyone now has in registers are not written", begins=FUSED, label="dce-2"),
    Stage(
        "join-products",
        "what lies between two products is final: stored by nobody, it need not be stored at all",
        where="contractions",
    ),
    Stage(
        "prove-indices",
        "on a GPU: what an index is made of stands in one nest with it, as far as it ever will",
        where="blocks",
    ),
    Stage(
        "align-products",
        "what is left to the library stays there, and nests that read it have taken in all they can",
        where="blocks",
    ),
    Stage("narrow-updates", "fusion has brought together what an argument becomes and which part of it changes"),
    Stage("spread-rows", "on a GPU a row of which nothing is reduced any more is as many points", where="blocks"),
    Stage(
        "choose-products",
        "what surrounds a product is points now, and final; nothing has a schedule yet",
        where="contractions",
    ),
    Stage(
        "contract-sums",
        "sums of products that no library's call says: prologues and nests around them are final, too",
        where="contractions",
    ),
    Stage("tune-kernels", "under max-autotune only: the nests are final, and nothing has a schedule yet"),
    Stage(
        "sum-columns-with-rows",
        "on a GPU: what one nest reads by rows and another by columns is read once",
        where="blocks",
    ),
    Stage(
        "measure-parts",
        "what is reduced is final; nothing is in parts yet, and no schedule says that it is",
        where="tunes",
    ),
    Stage("choose-parts", "what is reduced is final; whether in parts is written down before anything obeys"),
    Stage(
        "shorten-walks",
        "what a walk computes at a score is final, and its mask still says which scores there are",
        where="contractions",
    ),
    Stage("carry-reductions", "what is reduced is final; one walk that carries all of it computes each element once"),
    Stage(
        "choose-waves",
        "every contraction that there will be has its tiles, and rows of it are still one nest",
        where="contractions",
    ),
    Stage(
        "split-last-waves",
        "rows whose sums are in parts are a nest of their own, of which the next stage makes parts",
        where="contractions",
    ),
    Stage("split-reductions", "large reductions with little around them would leave most of a machine idle"),
    Stage(
        "join-points-and-parts",
        "on a GPU: parts of reductions are nests with points of their own, which others may share",
        where="blocks",
    ),
    Stage("split-scatters", "what a scatter starts from is written in order, by all; then it is changed"),
    Stage("spread-scans", "on a GPU points that may come in any order need not come one by one", where="atomics"),
    Stage("add-counters", "points that meet are counted; by now it is known which do"),
    Stage("check-first", "what may raise is final; a program that writes to its arguments raises before it writes"),
    Stage(
        "measure-unsure",
        "reductions are in parts or are not, nests are final, and none is a kernel yet",
        where="tunes",
    ),
    Stage("nest-products", "what is around a product is final, and neither reduces in parts what it sums nor joins it"),
    Stage("nest-word-products", "as nest-products; and what reads such a product has not been written as a kernel yet"),
    Stage(
        "choose-forms",
        "where the factors of a contraction lie is final, and so is what it computes",
        where="contractions",
    ),
    Stage(
        "share-slices",
        "nests are final, and a kernel is written of each: of those that are alike, of one",
        begins=SLICED,
    ),
    Stage("loops-to-kernel", "choose a schedule and write the kernel; identical layers become one", begins=KERNEL),
    Stage("narrow-reductions", "only a kernel says which loop is that of one bag, whose ends only the data knows"),
    Stage("turn-scans", "only a kernel says which scans one tile holds, and before hints say what is read in order"),
    Stage(
        "split-walks",
        "only a kernel says which points a step has, and so which steps no mask takes anything out of",
        where="contractions",
    ),
    Stage("hint-loads", "only a kernel says which program reads what, and when"),
    Stage("split-index-sets", "only a schedule has loops to split; a window's inner points need no masks"),
    Stage("unroll-loops", "only a kernel says which loops are serial; and those that are split have other bodies"),
    Stage("kernel-to-host", "values become buffers"),
    Stage("write-in-place", "what ends up in an input is written there, while every buffer still has one writer"),
    Stage("accumulate-in-place", "as write-in-place; and what it frees, later buffers may take"),
    Stage("choose-libraries", "it is final which products are calls of a library, and where their factors lie"),
    Stage("overlap-collectives", "it is final who writes to what, and no buffer has taken the place of another yet"),
    Stage("join-launches", "it is final what is launched, and no buffer has taken the place of another yet"),
    Stage(
        "keep-frozen",
        "it is final what is launched and written in place; what is kept takes no part in what follows",
    ),
    Stage("free-buffers", "buffers die at their last use, and later ones take their place"),
    Stage("pool-buffers", "what only lives between two library calls shares one allocation", begins=HOST),
    Stage("link-pieces", "of a graph in pieces only: one program, with one set of kernels"),
    Stage("lend-arguments", "of a graph in pieces only: who reads an argument after an operator is known by now"),
)
"""The whole compiler between capture and the targets."""

CHECK_BOUNDS = Stage("check-bounds", "last of a program from a text, which nothing made that keeps to bounds")


def default_stages(
    *,
    emulate_precision_casts: bool = False,
    relax_accuracy: bool = True,
    deterministic: bool = False,
    random: str = "device",
    tune: bool = False,
    tf32: bool = False,
    tf32_convolutions: bool = False,
    pieces: bool = False,
) -> tuple[Stage, ...]:
    """The stages as options ask for them. With `emulate_precision_casts`, every rounding stays, and
    is of what eager rounds; without `relax_accuracy`, too, every function is exact. `deterministic` and `random` are
    options of `aten-to-loops`. With `tune`, schedules are measured; `tf32` says that products of f32 may be rounded,
    and `tf32_convolutions` that convolutions may; with `pieces`, the program is in pieces.
    """
    options = {
        "aten-to-loops": {"deterministic": "true"} if deterministic else {},
        "tune-kernels": dict[str, str](),
        "choose-products": dict[str, str](),
    }
    if random != "device":
        options["aten-to-loops"]["random"] = random
    if tf32:
        options["tune-kernels"]["tf32"] = options["choose-products"]["tf32"] = "true"
    if tf32_convolutions:
        for name in ("tune-kernels", "choose-products"):
            options[name]["tf32_convolutions"] = "true"
    left_out = {"choose-products", "measure-parts", "measure-unsure"} if tune else {"tune-kernels"}
    if not pieces:
        left_out |= {"link-pieces", "lend-arguments"}
    if emulate_precision_casts:
        options["tune-kernels"]["keep_roundings"] = "true"
        options["canonicalize"] = {"exact": "true"}
    if emulate_precision_casts:
        left_out |= {"elide-roundings", "accumulate-products", "separate-biases", "nest-row-products", "join-products"}
        left_out |= {"align-products", "multiply-patches", "choose-products", "choose-libraries"}
        left_out |= {"nest-products", "nest-word-products", "widen-products"}
    if emulate_precision_casts or not relax_accuracy:
        left_out |= {"relax-accuracy", "shorten-walks"}
    return tuple(
        replace(stage, name=_with_options(stage.name, options.get(stage.name, {})))
        for stage in extended_stages()
        if stage.name not in left_out
    )


def extended_stages() -> tuple[Stage, ...]:
    """All stages, with the passes of the extensions in force in their places, as labels name them. What several put in
    one place stands there in their order.

    Errors: CuestaError for a place that there is not.
    """
    extensions = active()
    if not extensions.places:
        return STAGES
    stages, behind = list(STAGES), Counter[str]()
    for place in extensions.places:
        owner = extensions.owner(place.pass_)
        labels = [stage.label for stage in stages]
        if place.stage not in labels:
            near = difflib.get_close_matches(place.stage, labels, n=1)
            hint = f", did you mean {near[0]}?" if near else f"; there are: {', '.join(labels)}"
            accuse(place.pass_, f"stands beside {place.stage!r}, which is no stage{hint}", owner=owner)
        position = labels.index(place.stage)
        if isinstance(place, After):
            behind[place.stage] += 1
            position += behind[place.stage]
        label = place.pass_.name
        if (again := sum(stage.name.partition("{")[0] == label for stage in stages)) > 0:
            label += f"-{again + 1}"
        text = place.pass_.name if isinstance(place.pass_, type) else str(place.pass_.spec())
        stages.insert(position, Stage(text, place.why, label=label, extension="" if owner is None else owner.name))
    return tuple(stages)


def _with_options(name: str, options: Mapping[str, str]) -> str:
    values = " ".join(f"{key}={value}" for key, value in options.items())
    return f"{name}{{{values}}}" if values else name


def stages_of(passes: str) -> tuple[Stage, ...]:
    """The stages of a pipeline given as text: `fuse-nests{explain=true},dce`.

    Errors: CuestaError for an unknown pass, listing those there are.
    """
    return tuple(Stage(str(one.spec()), "asked for by the caller") for one in parse_passes(passes))


def stages_named(names: Sequence[str], *, place: str) -> tuple[Stage, ...]:
    """The stages that a text says it still has before it: each with its contract, where it is one of `STAGES`.

    Errors: CuestaError at `place` for an unknown pass.
    """
    try:
        parse_passes(",".join(names))
    except CuestaError as error:
        error.add_context(place=place)
        raise
    passes = [name.partition("{")[0] for name in names]
    places: dict[str, list[int]] = {}
    for position, stage in enumerate(STAGES):
        places.setdefault(stage.name, []).append(position)
    only = [places[one][0] if len(places.get(one, ())) == 1 else None for one in passes]
    found: list[Stage] = []
    for number, (name, pass_name) in enumerate(zip(names, passes, strict=True)):
        # Of several stages of one pass, the one between those around it.
        after = next((one for one in reversed(only[:number]) if one is not None), -1)
        before = next((one for one in only[number:] if one is not None), len(STAGES))
        meant = [one for one in places.get(pass_name, ()) if one == only[number] or after < one < before]
        found.append(replace(STAGES[meant[-1]] if meant else Stage(pass_name, "named by the text"), name=name))
    return tuple(found)


_FIRST_STAGE = {"loops": "eliminate-views", "kernel": "narrow-reductions", "host": "link-pieces"}


def level_of(module: ModuleOp) -> str:
    """The level that a program stands at: `aten`, `loops`, `kernel` or `host`. Of pieces, the highest of theirs."""
    programs = host.programs_of(module)
    if programs != [module]:
        levels = set(map(level_of, programs))
        return next((level for level in ("aten", *_FIRST_STAGE) if level in levels), "host")
    if isinstance(entry_function(module), host.FuncOp):
        return "host"
    if any(isinstance(op, kernel.FuncOp) for op in module.body.ops):
        return "kernel"
    block = entry_block(module)
    return "aten" if any(isinstance(op, aten.AtenOp | aten.CallOp) for op in block.ops) else "loops"


def remaining_stages(module: ModuleOp, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages that a program still has before it, judged by its level."""
    level = level_of(module)
    if level == "aten":
        return tuple(stages)
    first = _FIRST_STAGE[level]
    names = [stage.label for stage in stages]
    return tuple(stages[names.index(first) :]) if first in names else ()


STAGE_NOTE = "stage: "
"""How a note begins that says in which stage an exception was raised."""

StageCallback: TypeAlias = Callable[[str, ModuleOp, float], None]
"""Called after every stage with its name, the module and the seconds it took."""


def run_pipeline(
    context: Context,
    module: ModuleOp,
    stages: Sequence[Stage],
    *,
    verify_each: bool = False,
    after_stage: StageCallback | None = None,
    keep_input: Callable[[ModuleOp, str], str] | None = None,
) -> None:
    """Run the stages on the module, in place.

    A failure says the stage, and with `keep_input` (which stores the program as it was before the stage, and returns
    the file's path) also the command that repeats it. As passes work in place, the program is then copied before each.

    Errors: CuestaError; what else a pass raises has a note of the stage.
    """
    facts = _Facts(module)
    passes = [(stage, one) for stage in stages for one in (parse_passes(stage.name) if facts.hold(stage) else (None,))]
    programs = host.programs_of(module)
    contract: Contract | None = None
    verified: list[object] = []
    for stage, one in passes:
        if one is None:
            if after_stage is not None:
                after_stage(stage.name, module, 0.0)
            continue
        before = module.clone() if keep_input is not None else None
        start = perf_counter()
        try:
            with blame_late(), _of_extensions(one) as has_part:
                promises = _promises(programs) if has_part else ()
                whole = isinstance(one, WholeProgramPass)
                _run_pass(context, [module] if whole else programs, one)
                if whole or has_part:
                    programs = host.programs_of(module)
                if verify_each and not same_state(now := state_of(module), verified):
                    verify_module(module)
                    verify_dominance(module)
                    verified = now
                contract = stage.begins or contract
                if has_part:
                    verify_module(module)
                if has_part or stage.begins is not None:
                    for program in programs:
                        held = stage.begins or _contract_of(program, contract)
                        if has_part:
                            held = replace(held, rules=(*held.rules, *COMPLETE.get(level_of(program), ())))
                        check_level(program, held, established_by=one.name)
                _hold_to(promises, programs)
        except CuestaError as error:
            repeat = ""
            if keep_input is not None and before is not None:
                repeat = repeat_command(keep_input(before, one.name), stage.name)
            error.add_context(stage=one.name, repeat=repeat)
            raise
        except Exception as error:
            error.add_note(f"{STAGE_NOTE}{one.name}")
            raise
        if after_stage is not None:
            after_stage(stage.name, module, perf_counter() - start)


class _Facts:
    """What holds of some device of a program."""

    def __init__(self, module: ModuleOp) -> None:
        self._module = module
        self._known = dict[str, bool]()

    def hold(self, stage: Stage) -> bool:
        """Whether a stage may have anything to do."""
        if not stage.where or "target=" in stage.name:
            return True
        if stage.where not in self._known:
            self._known[stage.where] = any(self._holds(device, stage.where) for device in self._devices)
        return self._known[stage.where]

    @cached_property
    def _devices(self) -> list[str]:
        return devices_of(self._module)

    def _holds(self, device: str, fact: str) -> bool:
        try:
            return getattr(traits_of_device(device), fact)
        except CuestaError:  # no target is for it: whoever needs one says so
            return True


_HELD: Mapping[str, tuple[str, ...]] = {
    "aten-to-loops": ("lowerings",),
    "canonicalize": ("rules",),
    "fuse-nests": ("fusions",),
    "loops-to-kernel": ("schedules", "targets"),
}
"""The stages of ours in which extensions have a part, by what they hold."""


@contextmanager
def _of_extensions(one: ModulePass) -> Generator[bool]:
    """The `with` block in which a stage runs, and is checked; true when extensions have a part in it. Then nothing that
    happens is a traceback, and it says whose the part is.

    Errors: CuestaError.
    """
    extensions = active()
    if extensions.owner(one) is not None:
        with blame(one):
            yield True
        return
    held = _HELD.get(one.name, ())
    members = [extension for extension in extensions.members if any(getattr(extension, name) for name in held)]
    if not members:
        yield False
        return
    parts = [(" and ".join(name for name in held if getattr(one, name)), one) for one in members]
    told = f"{', '.join(f'{part} of {one.name!r} ({one.place})' for part, one in parts)} had a part in it"
    try:
        yield True
    except CuestaError as error:
        if not any(found.without for found in error.diagnostics):
            error.add_context(note=told, without=without(*members))
        raise
    except Exception as error:
        raised = f"raised {type(error).__name__}: {error}"
        raise CuestaError(Diagnostic(f"{one.name} {raised}", note=told, without=without(*members))) from error


def _promises(programs: Sequence[ModuleOp]) -> Sequence[tuple[str, Promise]]:
    """What each program promises, with its level."""
    return [(level_of(program), Promise.of(program)) for program in programs]


def _hold_to(promises: Sequence[tuple[str, Promise]], programs: Sequence[ModuleOp]) -> None:
    """Errors: CuestaError when a program, in which something of an extension's had a part, breaks its promise."""
    for (level, promise), program in zip(promises, programs, strict=False):
        if level_of(program) == level and (broken := promise.broken_by(Promise.of(program))) is not None:
            fail(entry_function(program), broken, got="")


def _contract_of(module: ModuleOp, begun: Contract | None) -> Contract:
    """What holds of a program: the contract that was checked last, as long as its level lasts; else what holds at its
    level wherever it stands there.
    """
    level = level_of(module)
    if begun is not None and begun.level.partition(",")[0] == level:
        return begun
    return {"loops": LOOPS, "kernel": KERNEL, "host": HOST}.get(level, Contract(level, ()))


def _run_pass(context: Context, programs: Sequence[ModuleOp], one: ModulePass) -> None:
    try:
        for program in programs:
            one.apply(context, program)
    except CuestaError:
        raise
    except DiagnosticException as error:  # xDSL's own kind, from a pass or a verifier of xDSL's
        if active().owner(one) is not None:
            raise  # said with its name
        raise CuestaError(Diagnostic(str(error))) from error


def repeat_command(path: str, passes: str) -> str:
    """The command that runs the passes on the file, with the extensions in force."""
    files = dict.fromkeys(one.place.rpartition(":")[0] for one in active().members)
    load = "".join(f" --load {shlex.quote(file)}" for file in files)
    return f"cuesta-opt {shlex.quote(path)}{load} -p {shlex.quote(passes)}"
