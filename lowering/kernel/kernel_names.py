"""Names for kernels: what the body does, so that a profile reads like the model."""

from __future__ import annotations

from cuesta.dialects import elem, loops
from cuesta.dialects.core.operation import all_ops

MAX_LENGTH = 32
MAX_WORDS = 4

# What says little about a kernel, and stands in its name only when there is nothing else.
_QUIET = {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "add", "sub", "mul", "div", "neg"}
_REDUCTIONS = {"maximum": "max", "minimum": "min", "argmax_last_nan": "argmax", "welford": "variance"}
_RUNNING = {
    "sum": "cumsum",
    "prod": "cumprod",
    "last_argmax": "cummax",
    "last_argmin": "cummin",
    "logaddexp": "logcumsumexp",
}


def describe(nest: loops.NestOp) -> str:
    """A few words for what a nest computes: `softmax`, `variance_rsqrt`, `add_gelu`, `gather`, `copy`."""
    words: dict[str, int] = {}
    indirect = where = scatter = False
    for op in all_ops(nest):
        if isinstance(op, elem.TableOp):
            words[op.row.name] = words.get(op.row.name, 0) + 1
        elif isinstance(op, elem.PhiloxOp | elem.RandomWordOp):
            words["random"] = 1
        elif isinstance(op, loops.ReduceOp):
            word = "product" if "depth" in nest.choices else _REDUCTIONS.get(op.kind, op.kind)
            words[word] = words.get(word, 0) + 1
        elif isinstance(op, loops.RunningOp):
            words[_RUNNING[op.kind]] = 1
        elif isinstance(op, loops.CombineOp | loops.AtomicOp):
            scatter = True
        elif isinstance(op, loops.BoundOp):
            indirect = True
        elif isinstance(op, elem.SelectOp):
            where = True
    found = _recognise(words)
    telling = [word for word in found if word not in _QUIET]
    chosen = telling[:MAX_WORDS] or list(found)[:MAX_WORDS]
    if indirect or scatter:
        chosen.insert(0, "scatter" if scatter else "gather")
    if not chosen:
        chosen = ["where" if where else "copy"]
    while len(chosen) > 1 and len("_".join(chosen)) > MAX_LENGTH:
        chosen.pop()
    return "_".join(chosen)[:MAX_LENGTH]


def _recognise(words: dict[str, int]) -> dict[str, int]:
    """The words, with those that make up a well-known function replaced by its name."""
    if {"max", "exp", "sum"} <= words.keys():
        name = "log_softmax" if "log" in words else "softmax"
        return {name: 1, **_without(words, {"max", "exp", "sum", "log", "sub", "div"})}
    if {"variance", "rsqrt"} <= words.keys():
        return {"norm": 1, **_without(words, {"variance", "rsqrt", "add", "sub", "mul"})}
    if "erf" in words:
        return {("gelu" if word == "erf" else word): count for word, count in words.items()}
    return words


def _without(words: dict[str, int], known: set[str]) -> dict[str, int]:
    return {word: count for word, count in words.items() if word not in known}
