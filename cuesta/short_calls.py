"""Calls of graphs without gradients, past AOTAutograd's wrapper, where it has nothing to do but what is said here.

Around a graph that it has captured AOTAutograd puts a wrapper for all that a graph may need. Most need next to nothing
of it: what is written to is counted, gradients and autocast are off meanwhile, a result that is an input is that very
object, and Dynamo is told of sizes that change. Its wrapper takes 2 µs for that, which is more than a small kernel. A
*short call* does the same:

    def call(*args):
        if profiler._is_profiler_enabled: return whole(*args)
        count_changes((args[0],))
        grad = is_grad_enabled()
        try:
            if grad: set_grad_enabled(False)
            results = boxed([*args])
        finally:
            if grad: set_grad_enabled(True)
        results = (args[0], results[1],)
        mark(results[1], {0})
        return results

Nothing of this is taken on trust. AOTAutograd's wrapper is PyTorch's own business, so a short call is made only

- of versions whose wrapper has been read (`READ`), and where only those functions stand between Dynamo and ours that
  always do, and no other, as a duplicate input, a tensor subclass, a token, or an assertion would put there;
- if what AOTAutograd has found out of the graph asks for nothing else (`duties_of`);
- once a first call that went the whole way was seen to hand over the arguments as they came, with gradients and
  autocast off, and to give back the results that it got. (The first call has to: AOTAutograd looks at what users'
  operators do with their arguments then.)

A graph that is anything else goes the whole way, and so does a call that a profiler looks at.

Source: `_create_runtime_wrapper` of torch/_functorch/_aot_autograd/runtime_wrappers.py, and `aot_module_simplified` of
torch/_functorch/aot_autograd.py, in torch 2.11 to 2.14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from threading import get_ident
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch

from cuesta.dialects.core.structs import struct
from cuesta.finishing import BoxedFunction, make_boxed
from cuesta.saved_results import has_subclasses
from cuesta.targets.python_functions import define

if TYPE_CHECKING:
    from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta

_C: Any = getattr(torch, "_C")  # noqa: B009  # most of it has no types
READ: Final[Mapping[str, int]] = {"2.11": 4, "2.12": 4, "2.13": 2, "2.14": 2}
"""The versions of torch whose wrapper does what is said above, as somebody has read; and how many functions of
AOTAutograd's lie one in the other around every graph. (Before 2.13 two that do nothing without tokens, and without
random numbers that are made functional.)
"""
_AS_THEY_ARE: Final = frozenset({"non_alias", "unsafe_view_alias", "custom_function_view"})
"""What AOTAutograd calls results that it hands on. Source: `_HANDLER_MAP` of runtime_wrappers.py."""


@struct
class Duties:
    """What is to be done around a graph without gradients."""

    written: tuple[int, ...]
    """The inputs that the graph writes to, whose changes autograd counts."""
    results: int
    inputs: Mapping[int, int]
    """The results that are inputs, with the positions of these."""
    changing: Mapping[int, Set[int]]
    """The results of sizes that change, with the dimensions that do: Dynamo is told, for graphs that they are given."""


def duties_of(metadata: ViewAndMutationMeta) -> Duties | None:
    """What AOTAutograd does around a graph without gradients, by what it has found out; None if that is more."""
    inputs = {
        position: one.base_idx
        for position, one in enumerate(metadata.output_info)
        if one.output_type.name == "is_input" and one.base_idx is not None
    }
    kinds = {one.output_type.name for position, one in enumerate(metadata.output_info) if position not in inputs}
    more = (
        metadata.mutated_inp_runtime_indices
        or metadata.tokens
        or metadata.num_intermediate_bases
        or metadata.is_rng_op_functionalized
        or metadata.grad_enabled_mutation is not None
        or not metadata.keep_input_mutations
        or not kinds <= _AS_THEY_ARE
        or has_subclasses(metadata)
    )
    if more:
        return None
    written = tuple(metadata.mutated_graph_handled_indices_seen_by_autograd)
    changing = {
        position: one.dynamic_dims
        for position, one in enumerate(metadata.output_info)
        if metadata.dynamic_outputs and one.dynamic_dims is not None
    }
    if changing and marker() is None:
        return None
    return Duties(written, len(metadata.output_info), inputs, changing)


def marker() -> Callable[[torch.Tensor, Set[int]], None] | None:
    """What tells Dynamo of sizes that change, under the name that it has since torch 2.13, or before; else None."""
    from torch._functorch._aot_autograd import runtime_wrappers

    names = ("mark_dynamo_propagated_dynamic_indices", "maybe_mark_dynamic_helper")
    return next((getattr(runtime_wrappers, name) for name in names if hasattr(runtime_wrappers, name)), None)


class Shortening:
    """Makes a short call of one graph: `compiler` stands in for the one that AOTAutograd is to call, and `shortened` is
    then asked for the call.
    """

    def __init__(self, compiler: Callable[..., BoxedFunction]) -> None:
        self._compile = compiler
        self._graphs = 0
        self._boxed: BoxedFunction | None = None
        self._inner: BoxedFunction | None = None
        self._duties: Duties | None = None
        self._watched: dict[int, _Watched] = {}
        """By the thread whose first call it is."""

    def compiler(self, *arguments: Any, **options: Any) -> BoxedFunction:
        """Compiles a graph without gradients."""
        from torch._guards import TracingContext

        compiled = self._compile(*arguments, **options)
        self._graphs += 1
        context = TracingContext.try_get()
        metadata = None if context is None else context.fw_metadata
        if self._graphs > 1 or metadata is None or not is_read(torch.__version__):
            return compiled
        self._duties = duties_of(metadata)
        if self._duties is None:
            return compiled
        self._boxed = compiled
        self._inner = make_boxed(lambda args: self._seen(args))
        return self._inner

    def _seen(self, args: list[Any]) -> Any:
        """The compiled function, as AOTAutograd's wrapper calls it."""
        assert self._boxed is not None
        watched = self._watched.get(get_ident())
        if watched is None:
            return self._boxed(args)
        watched.arguments = list(args)
        watched.quiet = not torch.is_grad_enabled() and not _C._is_any_autocast_enabled()
        watched.results = self._boxed(args)
        return watched.results

    def shortened(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        """The call in place of what AOTAutograd made, or else that."""
        duties = self._duties
        if self._graphs != 1 or duties is None or self._boxed is None or not self._is_all_between(whole):
            return whole
        # The graph says all casts, so autocast is off while it runs. Dynamo guards that it is on in all calls or none.
        autocast: bool = _C._is_any_autocast_enabled()
        namespace: dict[str, Any] = {
            "profiler": torch.autograd.profiler,
            "whole": whole,
            "boxed": self._boxed,
            "count_changes": getattr(_C, "_increment_version", torch.autograd.graph.increment_version),
            "is_grad_enabled": torch.is_grad_enabled,
            "set_grad_enabled": _C._set_grad_enabled,
            "autocast_off": _C._DisableAutocast,
            "mark": marker(),
        }
        define(text_of(duties, autocast=autocast), "call", namespace)
        call: FunctionType = namespace["call"]
        short = call.__code__

        def first(args: tuple[Any, ...]) -> Any:
            """A call that goes the whole way; from then on, calls are short if it is seen to do what they would."""
            if torch.autograd.profiler._is_profiler_enabled:  # pyright: ignore[reportPrivateUsage]
                return whole(*args)
            thread, as_captured = get_ident(), _C._is_any_autocast_enabled() == autocast
            watched = self._watched[thread] = _Watched()
            try:
                results = whole(*args)
            finally:
                self._watched.pop(thread, None)
            is_right = as_captured and watched.is_as(duties, args, results)
            call.__code__ = short if is_right else namespace["call_whole"].__code__
            return results

        namespace["first"] = first
        call.__code__ = namespace["call_first"].__code__
        call.__dict__.update(whole.__dict__)
        return call

    def _is_all_between(self, whole: Callable[..., Any]) -> bool:
        """Whether AOTAutograd calls our function through those that it always makes, and through no other: each says
        which it wraps.
        """
        found: Any = whole
        for _ in range(READ[version_of(torch.__version__)]):
            found = getattr(found, "__wrapped__", None)
        return self._inner is not None and found is self._inner


class _Watched:
    """What was seen of a first call."""

    def __init__(self) -> None:
        self.arguments: Sequence[Any] | None = None
        self.quiet = False
        self.results: Sequence[Any] | None = None

    def is_as(self, duties: Duties, args: Sequence[Any], results: Any) -> bool:
        """Whether what came of it is what `duties` say."""
        if self.arguments is None or not self.quiet or not isinstance(self.results, tuple | list):
            return False
        if not _are_the_same(self.arguments, args):  # tensors of the graph's own come before
            return False
        expected = [
            args[duties.inputs[position]] if position in duties.inputs else result
            for position, result in enumerate(self.results)
        ]
        return (
            isinstance(results, tuple | list) and len(expected) == duties.results and _are_the_same(expected, results)
        )


def _are_the_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def is_read(version: str) -> bool:
    """Whether this is a release of a version in `READ`."""
    return version_of(version) in READ and all(part.isdecimal() for part in version.partition("+")[0].split("."))


def version_of(release: str) -> str:
    """2.13.0+cpu -> 2.13"""
    return ".".join(release.split(".")[:2])


def text_of(duties: Duties, *, autocast: bool) -> str:
    """The text of a short call, with `autocast` off meanwhile if it is on, and of two functions that stand in for it
    before it is known to be right, and if it is not.
    """
    lines = ["if profiler._is_profiler_enabled: return whole(*args)"]
    if duties.written:
        lines.append(f"count_changes(({''.join(f'args[{position}], ' for position in duties.written)}))")
    run = "results = boxed([*args])"
    if autocast:
        run = f"with autocast_off(): {run}"
    lines += [
        "grad = is_grad_enabled()",
        "try:",
        "    if grad: set_grad_enabled(False)",
        f"    {run}",
        "finally:",
        "    if grad: set_grad_enabled(True)",
    ]
    given = [
        f"args[{duties.inputs[position]}], " if position in duties.inputs else f"results[{position}], "
        for position in range(duties.results)
    ]
    if duties.inputs:
        lines.append(f"results = ({''.join(given)})")
    lines += [f"mark(results[{position}], {set(sizes) or 'set()'})" for position, sizes in duties.changing.items()]
    lines.append("return results")
    body = "".join(f"    {line}\n" for line in lines)
    others = "def call_first(*args):\n    return first(args)\n\ndef call_whole(*args):\n    return whole(*args)\n"
    return f"def call(*args):\n{body}\n{others}"


__all__ = ["Shortening"]
