"""All cases, by name, and the sets they make."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.fused import CASES as FUSED
from benchmarks.fused import LARGE_WINDOWS
from benchmarks.models import CASES as MODELS
from benchmarks.narrow_products import CASES as NARROW_PRODUCTS
from benchmarks.updates import CASES as UPDATES

SETS: dict[str, tuple[Case, ...]] = {
    "fused": FUSED,
    "models": MODELS,
    "updates": UPDATES,
    "windows": LARGE_WINDOWS,
    "products": NARROW_PRODUCTS,
}
CASES: dict[str, Case] = {case.name: case for cases in SETS.values() for case in cases}
