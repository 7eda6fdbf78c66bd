"""An explanation as a file of JSON, whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from cuesta.explain.model import Explanation


def write_json(explanation: Explanation, path: str) -> None:
    """Writes an explanation to a file, or to standard output for `-`. Errors: OSError; nothing is left behind then."""
    text = json.dumps(explanation.to_json(), indent=1, ensure_ascii=False)
    if path == "-":
        sys.stdout.write(text + "\n")
        return
    write_whole(Path(path), text + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all. Errors: OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
