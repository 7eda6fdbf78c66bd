"""Passes within a level: one file per pass, file name = pass name."""
