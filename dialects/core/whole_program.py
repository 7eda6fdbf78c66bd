"""Passes that see a program with all its pieces."""

from __future__ import annotations

from xdsl.passes import ModulePass


class WholeProgramPass(ModulePass):
    """A pass about what the pieces of a program share. It runs once, on all of it; any other pass runs on one piece at
    a time (`host.programs_of`).
    """
