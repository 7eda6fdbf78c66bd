"""Schedules for a GPU: tiles, warps, windows, contractions."""
