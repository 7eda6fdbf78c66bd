"""Names of functions that Dynamo looks up for its logs, only where somebody reads them.

For each call that it traces Dynamo writes a line for the log `trace_call`, whether that is on or not, with the name of
the function that the call stands in. It finds names by splitting whole source files into tokens, in Python: 0.2 s for a
model of the transformers library.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

_NO_NAMES: Mapping[int, str] = MappingProxyType({})
_LOGS = (
    ("torch._dynamo.symbolic_convert", "trace_call_log"),
    ("torch._dynamo.symbolic_convert", "trace_source_log"),
    ("torch._dynamo.output_graph", "trace_call_log"),
)
"""The logs that print names: modules, and variables of theirs."""


def find_names_when_logged() -> None:
    """From now on Dynamo reads source files for names only while a log that prints them is on.

    Before Dynamo is imported, or where it keeps names in another way than in torch 2.11 to 2.14, nothing is done.
    Source: torch/_dynamo/funcname_cache.py, whose table of files this replaces.
    """
    module = sys.modules.get("torch._dynamo.funcname_cache")
    found = [getattr(sys.modules.get(name), variable, None) for name, variable in _LOGS]
    logs = [log for log in found if isinstance(log, logging.Logger)]
    known = getattr(module, "cache", None)
    if type(known) is dict and len(logs) == len(_LOGS):
        setattr(module, "cache", _Names(known, logs))  # noqa: B010 - to a type checker modules have no variables


class _Names(dict[str, Mapping[int, str]]):
    """Names by file and line. While no log is on every file seems to be known, and to hold no names."""

    def __init__(self, known: Mapping[str, Mapping[int, str]], logs: Sequence[logging.Logger]) -> None:
        super().__init__(known)
        self.logs = logs

    def __contains__(self, file: object) -> bool:
        return super().__contains__(file) or not any(log.isEnabledFor(logging.DEBUG) for log in self.logs)

    def __missing__(self, file: str) -> Mapping[int, str]:
        return _NO_NAMES


__all__ = ["find_names_when_logged"]
