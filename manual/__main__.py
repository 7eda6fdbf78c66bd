"""Builds the manual: `python -m manual [FOLDER]` (`make docs`). A warning of the generator is an error."""

from __future__ import annotations

import sys
from pathlib import Path

from manual.staging import ROOT, stage

BUILT = ROOT / "build" / "docs"


def build(out: Path = BUILT, *, pages: Path | None = None, builder: str = "html") -> int:
    """Lays out the pages and has Sphinx make HTML of them; gives its exit status. The builder `dummy` writes nothing,
    and warns of the same.

    Errors: PageError for a page that is not as pages are.
    """
    from sphinx.cmd.build import build_main

    pages = ROOT / "build" / "docs-pages" if pages is None else pages
    stage(pages)
    settings = str(Path(__file__).parent / "site")
    strict = ["-q", "-W", "--keep-going"]
    return build_main([*strict, "-b", builder, "-c", settings, "-d", f"{pages}.doctrees", str(pages), str(out)])


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILT
    status = build(folder)
    if status == 0:
        print(f"{folder / 'index.html'}")
    sys.exit(status)
