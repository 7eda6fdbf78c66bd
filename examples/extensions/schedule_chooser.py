"""A chooser of schedules that knows one kernel: sums over rows keep eight partial sums, whatever the machine."""

import torch

from cuesta.extend import Extension, Machine, NestAnalysis, Schedule, all_ops, default_schedule, loops


def eight_partial_sums(analysis: NestAnalysis, machine: Machine) -> Schedule | None:
    reductions = [op for op in all_ops(analysis.nest) if isinstance(op, loops.ReduceOp)]
    if [op.kind for op in reductions] != ["sum"] or analysis.root.work > 1:
        return None  # not ours: the target chooses
    schedule = default_schedule(analysis, machine)
    schedule.choices["unroll"] = 8
    return schedule


extension = Extension("partial-sums", schedules=[eight_partial_sums])

if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        options: dict = {"extensions": [extension], "dump": folder}
        compiled = torch.compile(lambda x: x.sum(1), backend="cuesta", options=options)
        torch.testing.assert_close(compiled(x := torch.randn(64, 1000)), x.sum(1))
        text = next(Path(folder).glob("*/*_loops-to-kernel.mlir")).read_text()
        print(next(line.strip() for line in text.splitlines() if "schedule #" in line))
