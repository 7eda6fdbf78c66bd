"""All laws, theme by theme. Of the laws that match one op, the first is applied."""

from __future__ import annotations

from collections.abc import Mapping

from cuesta.transforms.algebra.booleans import BOOLEANS
from cuesta.transforms.algebra.comparisons import COMPARISONS
from cuesta.transforms.algebra.conversions import CONVERSIONS
from cuesta.transforms.algebra.division import DIVISION
from cuesta.transforms.algebra.extremes import EXTREMES
from cuesta.transforms.algebra.identities import IDENTITIES
from cuesta.transforms.algebra.integers import INTEGERS
from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.reductions import REDUCTIONS
from cuesta.transforms.algebra.selects import SELECTS
from cuesta.transforms.algebra.signs import SIGNS

THEMES: Mapping[str, tuple[Law, ...]] = {
    "identities": IDENTITIES,
    "signs": SIGNS,
    "division": DIVISION,
    "integers": INTEGERS,
    "booleans": BOOLEANS,
    "comparisons": COMPARISONS,
    "selects": SELECTS,
    "extremes": EXTREMES,
    "conversions": CONVERSIONS,
    "reductions": REDUCTIONS,
}
"""The laws by theme."""

LAWS: tuple[Law, ...] = tuple(law for laws in THEMES.values() for law in laws)
"""All laws."""
