"""Thresholds that fusion and the reductions share: read through this module, so that each is one number."""

from __future__ import annotations

FEW = 16
"""With fewer parallel points than this there is not work for all threads.

Source: measured by `make bench-constants ARGS='--only thresholds.FEW'`
"""
SMALL = 8
"""What has fewer than one element per so many points stays in the caches: reading it costs nothing.

Source: measured by `make bench-constants ARGS='--only thresholds.SMALL'`
"""
