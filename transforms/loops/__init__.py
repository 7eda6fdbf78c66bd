"""Rewrites of one nest of the `loops` level."""
