"""Frames that are compiled while no profiler runs carry no ranges for one.

Around what a frame reads before it calls a graph Dynamo writes two calls into its bytecode: they open and close the
range "Pregraph bytecode" of a profiler, and without a profiler a context manager that does nothing. That takes 1.8 us
of every call, as much as a small kernel. Whether to write them Dynamo asks its setting `record_runtime_overhead`, after
it has called the backend; so a backend can say no for what is left of the frame.

That is done so that nobody else sees it:

- only while the setting is at its default: who sets it himself, also to True, has what he says;
- only while no profiler runs, so that a frame whose first call is profiled has its ranges;
- last of all, when a graph has been compiled: an error before leaves nothing behind;
- until the trace of the frame ends, whatever ends it (`OutputGraph` has a hook for that);
- by a value that says no where this frame is being compiled, and yes to other frames, threads and backends, for whom it
  prints, compares and pickles as True. (In torch 2.11 settings are the process's, in 2.13 a thread's own.)

Source: `make_call_generated_code` of torch/_dynamo/codegen.py and `trace_frame` of torch/_dynamo/convert_frame.py, in
torch 2.11 and 2.13.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import torch

_SETTING: Final = "record_runtime_overhead"


def leave_out_ranges() -> None:
    """What is left of the frame that Dynamo compiles now, in this thread, is compiled without ranges, unless there is a
    profiler, or the user has said something of them. Where Dynamo compiles no frame nothing is done.
    """
    translator = _translator()
    settings: Any = torch._dynamo.config
    if translator is None or torch.autograd.profiler._is_profiler_enabled:  # pyright: ignore[reportPrivateUsage]
        return
    if not hasattr(settings, _SETTING) or not settings._is_default(_SETTING):
        return
    value = _TrueElsewhere(True)
    value.translator = translator
    put_back = settings._make_closure_patcher(**{_SETTING: value})()

    def end() -> None:
        value.translator = None
        if getattr(settings, _SETTING) is value:
            put_back()

    translator.output.add_cleanup_hook(end)


class _TrueElsewhere(int):
    """True, but not where one frame is being compiled."""

    translator: Any
    """Dynamo's, of that frame, until the end of it."""

    def __bool__(self) -> bool:
        return self.translator is None or self.translator is not _translator()

    def __repr__(self) -> str:
        return "True"

    def __reduce_ex__(self, _: Any) -> Any:
        return bool, (1,)


def _translator() -> Any:
    """What traces the frame that this thread compiles, if it does."""
    dynamo = sys.modules.get("torch._dynamo.symbolic_convert")
    return getattr(getattr(dynamo, "tls", None), "current_tx", None)


__all__ = ["leave_out_ranges"]
