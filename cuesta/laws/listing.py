"""The laws as a page: what `cuesta-opt --list-laws` prints, and docs/algebra.md holds."""

from __future__ import annotations

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.table import LAWS, THEMES

_KINDS = {"f": "floats", "i": "signed", "u": "unsigned", "b": "bools"}


def listing() -> str:
    """A table for each theme, in Markdown."""
    parts = [f"{len(LAWS)} laws.\n"]
    for theme, laws in THEMES.items():
        parts += [f"\n### {theme}\n", "| law | equation | of | |", "|---|---|---|---|"]
        parts += [_row(law) for law in laws]
    return "\n".join(parts) + "\n"


def _row(law: Law) -> str:
    equation = str(law).replace("|", "\\|")
    named = any(kind.name == "T" for kind in law.types.values())
    kinds = ", ".join(_KINDS[kind] for kind in law.kinds) if named and law.kinds != "fiub" else ""
    remarks = [] if law.exact else ["reassociates"]
    remarks += ["either zero"] if law.either_zero else []
    remarks += [law.note.replace("|", "\\|")] if law.note else []
    return f"| {law.name} | `{equation}` | {kinds} | {'; '.join(remarks)} |"


if __name__ == "__main__":
    print(listing(), end="")
