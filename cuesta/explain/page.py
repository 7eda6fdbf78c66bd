"""An explanation as one page: a file of HTML that asks for nothing else, with the program drawn and its levels.

The files of `web/` become one script and one style in it; the explanation is its JSON, compressed, which the page
unpacks (texts of repeated layers say the same things many times). What the program says reaches the page in no other
way, so nothing that stands in it can be taken for markup.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Final

from cuesta.explain.files import write_whole
from cuesta.explain.model import Explanation

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")
_SCRIPTS: Final = (
    "dom.js",
    "table.js",
    "flow.js",
    "summary.js",
    "layout.js",
    "zoom.js",
    "program.js",
    "text.js",
    "follow.js",
    "pane.js",
    "levels.js",
    "roofline.js",
    "kernels.js",
    "decisions.js",
    "memory.js",
    "times.js",
    "main.js",
)
"""In the order in which they are read: they share one scope."""


def page(explanation: Explanation) -> str:
    """The page as text."""
    said = json.dumps(explanation.to_json(), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A lone surrogate (a file's name that is no UTF-8) cannot be written: it becomes a question mark.
    packed = gzip.compress(said.encode("utf-8", errors="replace"), 9, mtime=0)
    parts = {
        "title": html.escape(f"{explanation.name} · cuesta explain".encode(errors="replace").decode()),
        "style": _file("page.css"),
        "data": base64.b64encode(packed).decode(),
        "script": '"use strict";\n' + "\n".join(_file(name) for name in _SCRIPTS),
    }
    # In one pass: what was put in is not looked at again.
    return _PLACE.sub(lambda found: parts[found[1]], _file("page.html"))


def write_page(explanation: Explanation, path: str | Path) -> Path:
    """Writes the page, and gives its path. A page that was there is replaced, and only by a whole one.

    Errors: OSError where the file cannot be written.
    """
    path = Path(path)
    write_whole(path, page(explanation))
    return path


def _file(name: str) -> str:
    return (resources.files("cuesta.explain") / "web" / name).read_text(encoding="utf-8")
