"""What a user may ask for through `torch.compile(..., backend="cuesta", mode=..., options=...)`.

Both arrive from torch unchecked. A wrong name or a wrong type is an `OptionError` that lists what there is.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cuesta.dialects.core.deadline import SECONDS
from cuesta.dialects.core.extension import Extension

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of torch.compile: `reduce-overhead` replays CUDA graphs, `max-autotune` also tries several schedules."""

CHECKS = ("auto", "off", "calls")
"""`auto` checks when they run what the texts of programs cannot prove; programs of torch.compile need no checks, unless
operators of `torch.library` may lie in their schemas: `calls` holds these to them, as `auto` does in texts.
"""

VERIFY_CHOICES = ("boundaries", "each")

RANDOM = ("device", "eager", "philox")
"""`device` is Philox on GPUs, where it is computed next to what uses it, and eager's stream on the CPU."""

VALIDATE = ("off", "stages", "kernels")
"""`stages` runs the reference interpreter around every stage, on what a graph is first called with; `kernels` runs it
on parts of what each kernel is launched on.
"""

TARGETS = ("device", "reference")
"""`reference` runs the kernels as their texts say, with operations of torch, on whatever device."""


class OptionError(ValueError):
    """A mode or an option that does not exist, or a value of the wrong kind."""


def _option(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one `torch.compile` call. The fields are the keys of its `options` dictionary."""

    mode: str = "default"
    dump: str | None = _option(None, "directory that receives the text of every level, one folder per graph")
    dump_inputs: bool = _option(False, "keep what each graph is first called with beside its texts, as .npy files")
    pipeline: str | None = _option(None, 'passes in place of the default ones, as in cuesta-opt -p "a,b"')
    verify: str = _option("boundaries", "when to check the program", VERIFY_CHOICES)
    random: str = _option(
        "device", "random numbers: eager's own (same seed, same numbers), Philox in kernels, or by the device", RANDOM
    )
    emulate_precision_casts: bool = _option(False, "round reduced-precision intermediates wherever eager would")
    relax_accuracy: bool = _option(
        True, "approximate functions whose results are only ever rounded to bf16 or f16 (GPU)"
    )
    frozen: bool = _option(
        False,
        "promise that nobody changes parameters and buffers unseen by PyTorch: in inference, what is computed of them "
        "alone is computed once (see docs/decisions/067)",
    )
    """What PyTorch sees is obeyed: `p.add_()`, `load_state_dict`, an optimizer's step, `p.data = other` and another
    model's parameters have it computed again. It does not see `p.data.add_()`, memory that NumPy, a C++ operator
    or another process writes to, and what is done under `torch.autograd._unsafe_preserve_version_counter`: after these,
    results may be those of the old values.
    """
    cuda_graphs: bool = _option(False, 'launch through CUDA graphs, as mode="reduce-overhead" does')
    cache: bool = _option(True, "take compiled graphs from disk, and keep them there (see docs/cache.md)")
    max_autotune: bool = _option(False, "time schedules of each kernel on the device, as mode='max-autotune' does")
    measure_unsure: bool = _option(
        True, "time layouts of convolutions, and a few schedules of kernels that no model is sure of, on the device"
    )
    checks: str = _option("auto", "what is checked when it runs: of a program from a text, or calls too", CHECKS)
    target: str = _option(
        "device", "who makes the kernels: the target of the device, or the interpreter, to compare with", TARGETS
    )
    validate: str = _option(
        "off", "compare with the reference interpreter: around every stage, or for each kernel", VALIDATE
    )
    trace: bool = _option(False, "record every rewrite, with its time and the line of its rule")
    extensions: tuple[Extension | str, ...] = _option((), "what is added to the compiler (see docs/extending.md)")
    extension_seconds: float = _option(SECONDS, "how long a function of an extension may run before it is stopped")

    @classmethod
    def parse(cls, mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
        """Check what torch.compile passed on.

        Errors: `OptionError`, whose text names every valid mode or option.
        """
        if options is not None and not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"options must be a dictionary, not {_described(options)}\n{_options_help()}")
        rest = dict(options or {})
        asked = rest.pop("mode", None)  # torch.compile takes a mode or options, and refuses both
        if asked is not None and mode is not None and asked != mode:
            raise OptionError(f"the mode is given twice, as {mode!r} and as {_described(asked)}")
        chosen: dict[str, Any] = {"mode": _checked_mode(asked if mode is None else mode)}
        known = {entry.name: entry for entry in fields(cls) if entry.name != "mode"}
        for name, value in rest.items():
            if name not in known:
                raise OptionError(f"unknown option {name!r}{_suggestion(name, known)}\n{_options_help()}")
            chosen[name] = _checked_value(name, value, known[name].default, known[name].metadata["choices"])
        if chosen.get("dump_inputs") and chosen.get("dump") is None:
            raise OptionError(
                "option 'dump_inputs' keeps inputs beside the texts of a dump: give the option 'dump' too"
            )
        return cls(**chosen)

    @property
    def tunes(self) -> bool:
        """Whether schedules are timed on the device."""
        return self.max_autotune or self.mode.startswith("max-autotune")

    @property
    def captures(self) -> bool:
        """Whether launches on a device are to be captured as CUDA graphs."""
        return self.cuda_graphs or self.mode in ("reduce-overhead", "max-autotune")

    @property
    def wants_stages(self) -> bool:
        """Whether the user wants something of the stages themselves, which a program from the cache cannot give."""
        return self.dump is not None or self.trace or self.verify != "boundaries" or self.validate != "off"


def _checked_mode(mode: object) -> str:
    if mode is None:
        return "default"
    if isinstance(mode, str) and mode in MODES:
        return mode
    said = repr(mode) if isinstance(mode, str) else _described(mode)
    raise OptionError(f"unknown mode {said}{_suggestion(mode, MODES)}\n  valid modes: {', '.join(MODES)}")


def _checked_value(name: str, value: object, default: object, choices: tuple[str, ...]) -> object:
    """The value as `Options` stores it. What an option takes follows from its default: a bool, extensions, a number of
    seconds, or text.
    """
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        raise OptionError(f"option {name!r} must be True or False, not {_described(value)}")
    if isinstance(default, tuple):
        return _checked_extensions(name, value)
    if isinstance(default, float):
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
        raise OptionError(f"option {name!r} must be a number of seconds above 0, or inf, not {_described(value)}")
    if value is None and default is None:
        return None
    if choices:
        if value in choices:
            return value
        allowed = ", ".join(map(repr, choices))
        raise OptionError(f"option {name!r} must be one of {allowed}, not {_described(value)}")
    if name == "dump" and isinstance(value, os.PathLike):
        value = os.fspath(value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str) and value:
        return value
    raise OptionError(f"option {name!r} must be a string that is not empty, not {_described(value)}")


def _checked_extensions(name: str, value: object) -> tuple[Extension | str, ...]:
    given: Any = value
    if isinstance(value, list | tuple) and all(isinstance(one, Extension | str) for one in given):
        return tuple(given)
    raise OptionError(
        f"option {name!r} must be a list of extensions, or of names of installed ones, not {_described(value)}"
    )


def _described(value: object) -> str:
    return f"{value!r} of type {type(value).__name__}"


def _suggestion(name: object, known: Mapping[str, object] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _options_help() -> str:
    lines = ["  valid options:", f"    mode ({' | '.join(MODES)}, default 'default')"]
    for entry in fields(Options):
        if entry.name != "mode":
            choices = entry.metadata["choices"]
            kind = " | ".join(choices) or {bool: "bool", tuple: "list", float: "float"}.get(type(entry.default), "str")
            lines.append(f"    {entry.name} ({kind}, default {entry.default!r}): {entry.metadata['help']}")
    return "\n".join(lines)
