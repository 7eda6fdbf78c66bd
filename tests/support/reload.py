"""Goes on from the texts of a dump, and compares what comes of them with what the dump holds."""

from __future__ import annotations

from pathlib import Path

from cuesta.context import make_context
from cuesta.options import Options
from cuesta.pipeline import run_pipeline
from cuesta.programs.header import read_header
from cuesta.programs.loading import read
from cuesta.targets.host.wrapper import WrapperWriter
from tests.support.levels import machine_code


def check_dump(root: Path, every: int = 1, first: int = 0) -> int:
    """Goes on from every text of a dump, or from one in `every`, beginning with the `first`; gives how many there are.

    Errors: AssertionError.
    """
    texts = 0
    for folder in sorted(root.iterdir()):
        kernels, wrapper = (folder / "kernels.ll").read_text(), (folder / "wrapper.py").read_text()
        files = sorted(folder.glob("*.mlir"))
        for position, file in enumerate(files):
            header = read_header(file.read_text())
            assert header.done == position and header.remaining is not None, f"{file} stands elsewhere"
            assert position + len(header.remaining) == len(files) - 1, f"{file} has other stages before it"
            if position % every != first % every:
                continue
            module, _, stages = read(file.read_text(), str(file), Options(), given={})
            assert stages is not None
            run_pipeline(make_context(), module, stages)
            assert WrapperWriter(module).write().source == wrapper, f"{file} goes on to another wrapper"
            assert machine_code(module) == kernels, f"{file} goes on to other kernels"
        texts += len(files)
    return texts
