"""Rewrites of the `kernel` level."""
