"""Run pyright over `build/links/`, and report by the files' real places.

Pyright succeeds when it finds nothing to check; here that is an error.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print the errors pyright finds; the exit status is 0 when there is none and files were checked."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    finished = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    try:
        report = json.loads(finished.stdout)
    except json.JSONDecodeError:
        print(finished.stdout or "pyright printed nothing", file=sys.stderr)
        return 1
    for found in report["generalDiagnostics"]:
        if found["severity"] == "error":
            place = os.path.relpath(os.path.realpath(found["file"]), ROOT)
            start = found["range"]["start"]
            rule = f" ({found['rule']})" if "rule" in found else ""
            print(f"{place}:{start['line'] + 1}:{start['character'] + 1}: {found['message']}{rule}")
    summary = report["summary"]
    print(f"pyright: {summary['errorCount']} errors in {summary['filesAnalyzed']} files")
    return 0 if summary["errorCount"] == 0 and summary["filesAnalyzed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
