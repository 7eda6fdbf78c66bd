"""The scheduling choices of a nest, `#loops.schedule<lanes = 16, unroll = 2>`: which there are, and who knows them.

One table. A target obeys the choices that it knows, and refuses every other by name; what is not said its chooser
chooses. All but `tf32` and `bf16x6` change only how long a kernel takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuesta.dialects import loops
from cuesta.dialects.core.devices import DeviceTraits
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.structs import struct

_COUNT, _POWER, _SWITCH, _NUMBER = "a positive number", "a power of 2", "0 or 1", "a number that is not negative"


@struct
class Choice:
    """What may be chosen of a nest."""

    values: str
    """Which values there are."""
    cpu: str = ""
    """What it means on a processor; nothing where it has no meaning."""
    gpu: str = ""
    """What it means where programs are blocks of threads; nothing where it has no meaning."""


CHOICES: Mapping[str, Choice] = {
    "lanes": Choice(
        _POWER,
        cpu="of the vectors, along the axis that suits them best",
        gpu="of the innermost loops: along what is reduced, or of a pointwise tile",
    ),
    "rows": Choice(
        _POWER,
        cpu="points of a parallel axis whose sums are taken side by side: of the last, where the loops inside have "
        "lanes; where `lanes` are along a parallel axis, of the last other one that what all lanes read varies along",
        gpu="lanes along the parallel axis around those loops; of a contraction, of its tile",
    ),
    "prefetch": Choice(_COUNT, cpu="elements that memory is asked for ahead of what only one row reads: `hint-loads`"),
    "along": Choice(
        _NUMBER,
        gpu="the parallel axis of those lanes, as axes are when they are merged: 1 the last, 2 the one before it; "
        "0 all of them as one",
    ),
    "joined": Choice(
        _COUNT, gpu="so many of the last parallel axes are one, the last, when `along` and `across` count"
    ),
    "across": Choice(_COUNT, gpu="another parallel axis that a tile has lanes along, counted like `along`"),
    "height": Choice(_POWER, gpu="lanes along it"),
    "warps": Choice(_POWER, gpu="of a program"),
    "registers": Choice(_COUNT, gpu="that a thread may have at most"),
    "part": Choice(
        _COUNT,
        cpu="points that are reduced together, all parts being equal: `split-reductions` makes two nests of this one",
        gpu="points of a row that are reduced by one program, or points of a contraction: `split-reductions` makes "
        "several nests of this one",
    ),
    "unroll": Choice(_COUNT, cpu="vectors that are done in one step of a loop"),
    "parallel": Choice(_SWITCH, cpu="with 1 all threads share the programs, with 0 one does them all"),
    "slide": Choice(_COUNT, gpu="points of an axis that a program writes out, where windows overlap; 1 for no sliding"),
    "columns": Choice(_POWER, gpu="of the tile of a contraction"),
    "depth": Choice(_POWER, gpu="of the tile of a contraction; it is what tells one from other nests"),
    "batch": Choice(_SWITCH, gpu="with 1, a sum around contractions goes from point to point, with a tile of each"),
    "stages": Choice(_COUNT, gpu="tiles of a contraction that are on their way from memory at a time"),
    "group": Choice(
        _COUNT, gpu="rows of tiles of a contraction done together, which find each other's columns in the cache"
    ),
    "programs": Choice(
        _COUNT,
        gpu="of a launch of a contraction, at most: each does one tile after the other (persistent); without it, one",
    ),
    "stream_k": Choice(
        _COUNT,
        gpu="rows at the end of a contraction whose sums are in parts, of `part` points: those that no whole wave of "
        "programs has (stream-K); `split-last-waves` makes two nests of this one",
    ),
    "stream_columns": Choice(_SWITCH, gpu="with 1, `stream_k` says how many columns at the end, in place of rows"),
    "descriptors": Choice(
        _SWITCH,
        gpu="with 1, factors of a contraction that are read as they lie are loaded by tensor descriptors (sm_90 on); "
        "with 0 they are not, and `choose-forms` leaves it at that",
    ),
    "tf32": Choice(_SWITCH, gpu="with 1, factors of a contraction of type f32 are rounded to TF32"),
    "bf16x6": Choice(
        _SWITCH, gpu="with 1, factors of a contraction of type f32 are three pieces of bf16; six products count"
    ),
    "cooperative": Choice(
        _SWITCH, gpu="with 1, programs that have a part of a row each meet (`loops.meet`), and stay one nest"
    ),
    "ahead": Choice(
        _COUNT,
        gpu="of programs that meet, the parts that are reduced before the first is finished, by other programs, which "
        "find it in the cache",
    ),
    "reread": Choice(_SWITCH, gpu="with 1 the next kernel reads the same again, with 0 nobody does: `hint-loads`"),
    "whole": Choice(
        _SWITCH, gpu="with 1 a program that has all of its points does without masks: the text is there twice"
    ),
    "reversed": Choice(_SWITCH, gpu="the last program begins: it finds in the cache what the kernel before read last"),
}
"""Every choice by name."""


def known_to(traits: DeviceTraits) -> list[str]:
    """The choices that have a meaning on a device."""
    return [name for name, choice in CHOICES.items() if (choice.gpu if traits.blocks else choice.cpu)]


def check_choices(nest: loops.NestOp, traits: DeviceTraits) -> None:
    """Errors: CuestaError for a choice that does not exist, has no meaning on the device, or no such value."""
    for name, value in nest.choices.items():
        choice = CHOICES.get(name)
        if choice is None or not (choice.gpu if traits.blocks else choice.cpu):
            kind = "GPU" if traits.blocks else "processor"
            what = f"no scheduling choice is called {name}" if choice is None else f"{name} means nothing on a {kind}"
            raise CuestaError(Diagnostic.on(nest, f"{what}; there are {', '.join(known_to(traits))}"))
        if not _is_among(value, choice.values):
            raise CuestaError(Diagnostic.on(nest, f"its schedule says {name} = {value}, which is not {choice.values}"))


def _is_among(value: int, values: str) -> bool:
    if values == _SWITCH:
        return value in (0, 1)
    if values == _NUMBER:
        return value >= 0
    return value > 0 and (values == _COUNT or value & (value - 1) == 0)


__all__ = ["CHOICES", "Choice", "check_choices", "known_to"]
