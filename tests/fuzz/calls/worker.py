"""A process that draws and judges programs: one JSON object a line in, one a line out."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import time
from typing import Any

# A program that was compiled before would hide a bug, and be one read more.
os.environ["CUESTA_CACHE"] = "0"

import torch
import torch._dynamo.guards

from tests.fuzz.calls import scope
from tests.fuzz.calls.case import Case
from tests.fuzz.calls.draw import case_of
from tests.fuzz.calls.judge import judge

COLLECT = 25
"""After so many programs it looks for cycles: those of compiled functions hold memory."""


def prepare(device: str) -> None:
    """Settings of the process: one thread, no logs, and none of what torch measures for them."""
    torch.set_num_threads(1)
    scope.use_device(device)
    logging.disable(logging.CRITICAL)
    guards: Any = torch._dynamo.guards
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0


def main() -> None:
    """Answers until the input ends."""
    prepare(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print is no answer
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        start = time.perf_counter()
        case = Case.from_json(asked["case"]) if "case" in asked else case_of(asked["seed"])
        answer: dict[str, Any] = {"case": case.to_json()}
        if not asked.get("draw_only"):
            verdict = judge(case)
            answer |= {"verdict": verdict.kind, "what": verdict.what, "mechanism": verdict.mechanism}
        answer["seconds"] = time.perf_counter() - start
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if number == COLLECT:
            gc.collect()
            gc.freeze()
            gc.disable()
        elif number % COLLECT == 0:
            gc.collect()


if __name__ == "__main__":
    main()
