"""An explanation as a file of JSON, whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import suppress
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
    """Writes a file whole or not at all; a lone surrogate, which cannot be written, as a question mark.

    Errors: OSError, which names this file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8", errors="replace")
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None


def check_place(path: str) -> None:
    """That there is a folder for a file that is written much later. Errors: OSError."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no folder for it", path)
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
