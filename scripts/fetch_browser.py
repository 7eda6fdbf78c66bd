"""Fetch a headless Chromium into `build/browser/`, once: for the tests that open a page in a browser.

It comes from the package registry, by npm, as the package `@sparticuz/chromium`: a Chromium for machines that have
nothing, with the shared libraries that those lack. Nothing of the package is run; its archives are unpacked. Where
there is no npm, or the registry is out of reach, this says so, and the status is 1.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "browser"
PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
PATIENCE = 90
"""Seconds. Source: 70 MB at 800 kB a second."""
UNPACK = """
const zlib = require("zlib"), fs = require("fs"), [from, to] = process.argv.slice(1);
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));
"""
"""Node's, because Python has no brotli of its own."""


def main() -> int:
    """Fetch it, unless it is there."""
    said = FOLDER / "version.json"
    wanted = json.dumps({"package": PACKAGE, "version": VERSION})
    if said.is_file() and said.read_text(encoding="utf-8") == wanted:
        return 0
    missing = [name for name in ("npm", "node") if shutil.which(name) is None]
    if missing:
        print(f"no browser was fetched: there is no {' and no '.join(missing)} here", file=sys.stderr)
        return 1
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        fetch()
    except (subprocess.SubprocessError, OSError, tarfile.TarError) as error:
        shutil.rmtree(FOLDER, ignore_errors=True)
        told = str(getattr(error, "stderr", None) or error).strip().splitlines()
        print(f"no browser was fetched: {' '.join(told[:3])}", file=sys.stderr)
        return 1
    said.write_text(wanted, encoding="utf-8")
    return 0


def fetch() -> None:
    """Install the package, and unpack what is in it."""
    package = FOLDER / "package"
    package.mkdir()
    # A package.json of its own, or npm would look for one in the folders above.
    (package / "package.json").write_text("{}", encoding="utf-8")
    run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional", "--no-package-lock",
        f"{PACKAGE}@{VERSION}", folder=package)  # fmt: skip
    archives = package / "node_modules" / PACKAGE / "bin"
    for name in ("chromium", "al2023.tar", "fonts.tar"):
        run("node", "-e", UNPACK, str(archives / f"{name}.br"), str(FOLDER / name), folder=FOLDER)
    for name in ("al2023.tar", "fonts.tar"):
        with tarfile.open(FOLDER / name) as archive:
            archive.extractall(FOLDER, filter="data")
        (FOLDER / name).unlink()
    os.chmod(FOLDER / "chromium", 0o755)
    shutil.rmtree(package)


def run(*command: str, folder: Path) -> None:
    """Run a command to its end. Errors: those of subprocess, with what it wrote on stderr."""
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=PATIENCE)


if __name__ == "__main__":
    sys.exit(main())
