"""Rewrites of the `host` level: which buffers there are, and for how long."""
