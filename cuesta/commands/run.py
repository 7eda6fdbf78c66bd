"""Go on from a dumped program, on the inputs of its call or random ones, and check or time what it computes."""

from __future__ import annotations

import argparse
import warnings

EXAMPLES = """\
examples:
  cuesta run levels/000_inference                          the whole program again
  cuesta run levels/000_inference/21_dce.mlir  --check    from a text on, edited or not, beside the reference interpreter
  cuesta run levels/000_inference --until fuse-nests --check   as far as a stage, interpreted
  cuesta run levels/000_inference --random --size s0=100 --time

Inputs are kept by options={"dump": "levels/", "dump_inputs": True}.
"""  # noqa: E501


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.epilog = EXAMPLES
    parser.add_argument("dump", help="a text, or the folder of a graph's dump, which stands for its first text")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--inputs", metavar="FILE", help="a folder of kept inputs; by default the one beside the text")
    where.add_argument("--random", action="store_true", help="random inputs of the types that @main declares")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random inputs and random numbers (0)")
    parser.add_argument("--size", action="append", default=[], metavar="s0=7", help="a symbolic size of random inputs")
    parser.add_argument("--until", metavar="STAGE", help="stop after a stage, and have the program interpreted there")
    parser.add_argument("--check", action="store_true", help="compare with the reference interpreter")
    parser.add_argument("--time", action="store_true", help="time calls: the median")
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="a file that defines extensions")


def run(chosen: argparse.Namespace) -> int:
    """Runs the program. Gives 1 when a result is wrong. Errors: as `replay`, InputsError, OSError."""
    from cuesta.extensions import extended, load_file
    from cuesta.programs.stages import Program
    from cuesta.replaying.replay import ReplayError, described, inputs_for, replay, text_in

    symbols: dict[str, int] = {}
    for one in chosen.size:
        name, _, value = one.partition("=")
        if not value.isdecimal():
            raise ReplayError(f"--size {one}: a size is said as s0=7")
        symbols[name] = int(value)
    path = text_in(chosen.dump)
    with extended(*(found for file in chosen.load for found in load_file(file))), warnings.catch_warnings():
        warnings.simplefilter("always")
        program = Program.read(path)
        inputs = inputs_for(
            path, program.module, file=chosen.inputs, random=chosen.random, seed=chosen.seed, symbols=symbols
        )
        print(f"{path}  after {program.stage}, {len(program.remaining)} stages to come")
        print(inputs.told)
        done = replay(
            program, inputs.values, until=chosen.until, check=chosen.check, time=chosen.time, seed=chosen.seed
        )
    for position, value in enumerate(done.results):
        print(f"result {position}: {described(value)}")
    if done.timing is not None:
        print(f"time: {done.timing}")
    if done.note:
        print(f"note: {done.note}")
    for comparison in done.comparisons or ():
        print(comparison)
    return 0 if done.agrees else 1
