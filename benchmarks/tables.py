"""All cases, by name, and the sets they make."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.fused import CASES as FUSED
from benchmarks.models import CASES as MODELS

SETS: dict[str, tuple[Case, ...]] = {"fused": FUSED, "models": MODELS}
CASES: dict[str, Case] = {case.name: case for cases in SETS.values() for case in cases}
