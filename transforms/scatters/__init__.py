"""Scatters taken apart: what they start from, and what changes it."""
