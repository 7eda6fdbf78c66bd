"""The interpreter as a target: every kernel runs as the text says, with operations of torch, on whatever device.

    torch.compile(model, backend="cuesta", options={"target": "reference"})

gives what the kernels mean. What is wrong there, too, is wrong in the program; what is not, in the text or the machine
code that the device's own target makes of it.
"""

from __future__ import annotations

from cuesta.targets.target import Target


class ReferenceTarget(Target):
    """Has no code at all."""

    name = "reference"
    takes_tensors = True
