"""What happens in a process of its own: one kind of measurement, for one case or several, told as lines of JSON.

    python -m benchmarks.worker run --cases softmax tiny --sides eager cuesta

Everything else that is printed is noise; a line that counts begins with `MARK`.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

MARK = "\x1e"
"""The first character of a line of results (ASCII's record separator)."""

Result = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("run", "compile", "memory"))
    parser.add_argument("--cases", nargs="+", required=True)
    parser.add_argument("--sides", nargs="+", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1.0)
    chosen = parser.parse_args()

    from benchmarks.case import Prepared
    from benchmarks.measure import compile_once, peak_memory, run_time
    from benchmarks.tables import CASES

    for name in chosen.cases:
        prepared = Prepared(CASES[name], chosen.device)
        result: Result
        if chosen.kind == "run":
            result = run_time(prepared, chosen.sides, chosen.device, chosen.seconds)
        elif chosen.kind == "compile":
            (side,) = chosen.sides
            result = compile_once(prepared, side)
        else:
            (side,) = chosen.sides
            result = peak_memory(prepared, side, chosen.device)
        print(f"{MARK}{json.dumps({'case': name, **result})}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
