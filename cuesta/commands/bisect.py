"""Find the stage, the rewrite or the kernel that makes a program wrong, and a program of a few ops that shows it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuesta.bisecting.subjects import Subject

EXAMPLES = """\
examples:
  cuesta bisect model.py                              a model and its inputs
  cuesta bisect levels/000_inference                  a dump, on the inputs that were kept in it
  cuesta bisect 07_fuse-nests.mlir -o wrong.mlir      a text, from where it stands
  cuesta bisect model.py --slow                       the stages without which it is faster

Exit status: 0 when nothing is wrong, 1 when something is.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.epilog = EXAMPLES
    parser.add_argument("program", help="a Python file that defines a model, a folder of a dump, or a text")
    parser.add_argument("--inputs", metavar="FOLDER", help="kept inputs; by default those of the dump, or random ones")
    parser.add_argument("--training", action="store_true", help="of a model: its forward and its backward pass")
    parser.add_argument("-o", "--output", metavar="FILE", default="wrong.mlir", help="the smaller program (wrong.mlir)")
    parser.add_argument("--seconds", type=float, default=40.0, metavar="N", help="how long to make it smaller (40)")
    parser.add_argument("--slow", action="store_true", help="look for what makes it slow, and not for what is wrong")
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="a file that defines extensions")


def run(chosen: argparse.Namespace) -> int:
    """Bisects. Errors: those of `cuesta.lower` and `cuesta.load`, InputsError, ModelFileError, OSError."""
    from cuesta.bisecting.subjects import read_subjects
    from cuesta.extensions import extended, load_file

    with extended(*(found for file in chosen.load for found in load_file(file))):
        subjects = read_subjects(chosen.program, chosen.inputs, training=chosen.training)
        if chosen.slow:
            return _slow(subjects)
        return _wrong(subjects, chosen)


def _wrong(subjects: list[Subject], chosen: argparse.Namespace) -> int:
    from cuesta.bisecting.bisect import bisect
    from cuesta.bisecting.report import described, write
    from cuesta.programs.inputs_of import InputsError

    beside = Path(f"{chosen.output}.inputs")
    if beside.exists():
        raise InputsError(f"there is a {beside} already, where inputs would be kept")
    for subject in subjects:
        found = bisect(subject, seconds=chosen.seconds, told=lambda line: print(line, file=sys.stderr))
        if found is None:
            print(f"{subject.name}: nothing is wrong: all stages and the machine code give what the program means")
            continue
        print(described(found, subject.name))
        stage = next((one for one in subject.stages if one.label == found.stage), None)
        for path in write(found, stage if found.kind in ("wrong", "crash") else None, chosen.output):
            print(f"written: {path}")
        return 1
    return 0


def _slow(subjects: list[Subject]) -> int:
    from cuesta.bisecting.slowness import WORTH_TELLING, slowing_stages

    slowed = 0
    for subject in subjects:
        whole, without = slowing_stages(subject)
        print(f"{subject.name}: {whole:.1f} µs a call, with all stages")
        for one in without:
            mark = "faster without it" if one.least < WORTH_TELLING * whole else ""
            slowed += bool(mark)
            print(f"  {one.least:9.1f} µs without {one.stage:24} {mark}".rstrip())
    return 1 if slowed else 0
