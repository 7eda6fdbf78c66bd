"""A program whose results are not what it means."""

from __future__ import annotations

from cuesta.dialects.core.diagnostics import CuestaError


class ValidationError(CuestaError):
    """A stage that changes a result beyond rounding, or a kernel whose machine code gives another."""
