"""Compare a model with the reference interpreter, stage by stage, and prove that accesses are in bounds."""

from __future__ import annotations

import argparse

from cuesta.model_files import DEFINES


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.epilog = (
        f"What is wrong is looked into by `cuesta bisect`. Exit status: 0 when nothing is, 1 when something is.\n\n"
        f"Of a Python file: {DEFINES}"
    )
    parser.add_argument("program", help="a Python file that defines a model, a folder of a dump, or a text")
    parser.add_argument("--inputs", metavar="FOLDER", help="kept inputs; by default those of the dump, or random ones")
    parser.add_argument("--training", action="store_true", help="of a model: its forward and its backward pass")
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="a file that defines extensions")


def run(chosen: argparse.Namespace) -> int:
    """Prints the report. Errors: those of `cuesta.lower` and `cuesta.load`, InputsError, ModelFileError, OSError."""
    from cuesta.bisecting.subjects import read_subjects
    from cuesta.extensions import extended, load_file
    from cuesta.validating.report import validated

    wrong = False
    with extended(*(found for file in chosen.load for found in load_file(file))):
        for subject in read_subjects(chosen.program, chosen.inputs, training=chosen.training):
            found = validated(subject)
            print(found)
            wrong |= found.problem is not None
    return 1 if wrong else 0
