"""Arithmetic on Python integers that several modules need."""

from __future__ import annotations


def power_of_two(size: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, size - 1).bit_length()
