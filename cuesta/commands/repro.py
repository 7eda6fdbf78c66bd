"""Pack a graph that fails, or is wrong, into a folder that somebody else can run."""

from __future__ import annotations

import argparse

from cuesta.model_files import DEFINES

EXAMPLES = """\
examples:
  cuesta repro levels/000_inference -o repro      from a dump
  cuesta repro model.py -o repro                  from a model: the first graph that fails, or is wrong
  python repro/run.py                             repeats it
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.epilog = f"{EXAMPLES}\nOf a Python file: {DEFINES}"
    parser.add_argument("source", help="the folder of a dump, or a Python file that defines a model")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the folder to make")
    parser.add_argument("--weights", action="store_true", help="the model's own tensors too; by default random ones")
    parser.add_argument("--random", action="store_true", help="no inputs: random ones of their types")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is random (0)")
    parser.add_argument("--training", action="store_true", help="of a model: with its backward pass")
    parser.add_argument(
        "--graph", type=int, metavar="N", help="of a model: which of its graphs, whether it fails or not"
    )


def run(chosen: argparse.Namespace) -> int:
    """Makes the folder. Errors: ReproError, StageError, ModelFileError, OSError."""
    from pathlib import Path

    from cuesta.replaying.repro import ReproError, pack_dump, pack_model, told

    source, target = Path(chosen.source), Path(chosen.output)
    common = {"weights": chosen.weights, "random": chosen.random, "seed": chosen.seed}
    if source.suffix != ".py":
        if chosen.training or chosen.graph is not None:
            raise ReproError("--training and --graph are for a Python file that defines a model")
        case = pack_dump(source, target, **common)
    else:
        from cuesta.model_files import read_model_file

        defined = read_model_file(source)
        case = pack_model(
            defined.model,
            defined.inputs,
            target,
            kwargs=defined.kwargs,
            training=chosen.training,
            graph=chosen.graph,
            **common,
        )
    print(told(case, target))
    return 0
