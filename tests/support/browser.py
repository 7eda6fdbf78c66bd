"""The browser that `make browser` fetches, or why there is none."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.chromium import Browser

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "browser"
SCREENSHOTS = ROOT / "build" / "screenshots"


def why_not() -> str | None:
    """Why there is no browser to test with; None where there is one."""
    if not (FOLDER / "version.json").is_file():
        return "there is no browser in build/browser/: `make browser` fetches one"
    return None


def start() -> Browser:
    """The browser, started. Errors: `BrowserError`."""
    if not Path("/etc/fonts/fonts.conf").is_file():
        os.environ.setdefault("FONTCONFIG_PATH", str(FOLDER))
    return Browser(FOLDER / "chromium", FOLDER / "lib")
