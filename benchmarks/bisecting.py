"""How often, and how fast, bisection names a seeded fault: one row for each fault of `tests/support/seeded_faults.py`.

make bench-bisect [ARGS="--only places-overlap"]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from time import perf_counter

from cuesta.bisecting.finding import Finding
from tests.support.seeded import found_by_bisection, is_right_rewrite, is_right_stage
from tests.support.seeded_faults import FAULTS
from tests.support.seeding import Fault


@dataclass(frozen=True)
class Row:
    """What came of one fault."""

    fault: Fault
    found: Finding | None
    seconds: float

    @property
    def stage_right(self) -> bool:
        return self.found is not None and is_right_stage(self.fault, self.found)

    @property
    def rewrite_right(self) -> bool:
        return self.found is not None and is_right_rewrite(self.fault, self.found)

    def __str__(self) -> str:
        found = self.found
        said = "nothing" if found is None else f"{found.kind} {found.stage}: {found.rewrite}"
        marks = "".join("yes  " if one else "NO   " for one in (self.stage_right, self.rewrite_right))
        return f"{self.fault.name:26} {marks} {self.seconds:6.1f} s {found.ops if found else 0:3} ops  {said}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="faults, by name")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to make a program smaller")
    parser.add_argument("--show", action="store_true", help="print the reduced programs and the suspects")
    chosen = parser.parse_args()
    rows: list[Row] = []
    print(f"{'fault':26} stage rewrite")
    for fault in FAULTS:
        if chosen.only and fault.name not in chosen.only:
            continue
        start = perf_counter()
        found: Finding | None = None
        try:
            found = found_by_bisection(fault, seconds=chosen.seconds)
        except Exception as error:  # noqa: BLE001  # the others are to run
            print(f"{fault.name}: {type(error).__name__}: {error}")
        rows.append(Row(fault, found, perf_counter() - start))
        print(rows[-1], flush=True)
        if chosen.show and found is not None:
            print(found.problem)
            print("suspects:", "; ".join(found.suspects))
            print(found.reduced)
    right = sum(row.stage_right and row.rewrite_right for row in rows)
    found_rows = [row for row in rows if row.found is not None]
    print(
        f"\nstage and rewrite right: {right} of {len(rows)} (must: 27 of 30); "
        f"median {statistics.median(row.seconds for row in rows):.1f} s (must: 60); "
        f"median {statistics.median(row.found.ops for row in found_rows if row.found):.0f} ops (must: 5)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
