"""`fuse-nests{explain=true}` says of every pair that it does not merge why not, by the lines of the model."""

from __future__ import annotations

import re
from pathlib import Path

from cuesta.opt import run_captured

EXAMPLES = Path(__file__).parents[2] / "filecheck" / "transforms" / "fusion" / "fuse-nests"


def explanations(example: str) -> list[str]:
    status, _, errors = run_captured(
        [str(EXAMPLES / f"{example}.mlir"), "--split-input-file", "-p", "fuse-nests{explain=true}"]
    )
    assert status == 0
    return [re.sub(rf"\({EXAMPLES}/(\w+)\.mlir:\d+\)", r"(\1.mlir:N)", line) for line in errors.splitlines()]


def test_reasons() -> None:
    found = [line.partition("does not fuse with ")[2] for line in explanations("append")]
    reasons = [reason.partition(": ")[2] for reason in found]
    assert reasons == [
        "the consumer reads what other parallel points of the producer store",
        "the consumer reads what other parallel points of the producer store",
        "the consumer gathers what other parallel points of the producer may store",
        "the consumer gathers what other parallel points of the producer may store",
        "the consumer reads what other parallel points of the producer store",
        "the consumer reads what other parallel points of the producer store",
    ]


def test_a_pair_that_could_be_merged_in_two_ways_has_two_reasons() -> None:
    assert explanations("absorb") == [
        "nest %y (absorb.mlir:N) does not fuse with nest %a (absorb.mlir:N): the parallel domains differ; "
        "to compute it at its first read: a read does not walk the producer's result as the first one does",
        "nest %z (absorb.mlir:N) does not fuse with nest %b (absorb.mlir:N): the parallel domains differ; "
        "to compute it at its first read: a read is masked",
        "nest %y (absorb.mlir:N) does not fuse with nest %a (absorb.mlir:N): "
        "the consumer reads what other parallel points of the producer store; "
        "to compute it at its first read: the first read does not walk the producer's result once",
        "nest %y (absorb.mlir:N) does not fuse with nest %a (absorb.mlir:N): the parallel domains differ; "
        "to compute it at its first read: a read in the loops around the first one is of another element, which may "
        "come later",
    ]


def test_what_is_merged_needs_no_explanation() -> None:
    assert explanations("inline_masked") == []


def test_a_trace_of_rewrites_says_of_every_refused_pair_why() -> None:
    status, _, errors = run_captured(
        [str(EXAMPLES / "append.mlir"), "--split-input-file", "-p", "fuse-nests", "--trace-rewrites"]
    )
    assert status == 0
    rows = [line.partition("fuse-nests did not fire: ") for line in errors.splitlines()]
    refused = [reason for _, separator, reason in rows if separator]
    assert len(refused) == len(explanations("append"))
    assert any(
        line.startswith("with nest %a (") and line.endswith("what other parallel points of the producer store")
        for line in refused
    )
