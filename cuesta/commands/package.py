"""Compile a model into one file, which another process loads without a compiler."""

from __future__ import annotations

import argparse

from cuesta.model_files import DEFINES


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = f"Compiles what a Python file defines, and writes it to a package. {DEFINES}"
    parser.add_argument("file", help="the Python file that defines the model")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the package")
    parser.add_argument("--training", action="store_true", help="with its backward pass")
    parser.add_argument("--texts", action="store_true", help="with the text of every level")
    parser.add_argument("--device", action="append", default=[], metavar="DEVICE", help="for it; may be said again")
    parser.add_argument("--weights", metavar="FILE", help="safetensors that have the model's weights already")


def run(chosen: argparse.Namespace) -> int:
    """Makes the package. Errors: PackageError, ModelFileError, OSError."""
    from cuesta.model_files import read_model_file
    from cuesta.packages.building import package

    defined = read_model_file(chosen.file)
    digest = package(
        defined.model,
        defined.given_inputs,
        chosen.output,
        kwargs=defined.kwargs,
        dynamic_shapes=defined.dynamic_shapes,
        training=chosen.training,
        devices=chosen.device,
        weights=chosen.weights,
        texts=chosen.texts,
    )
    print(f"{chosen.output}  sha256 {digest}")
    return 0
