"""A process that compiles kernels for another: requests on its standard input, answers on its standard output.

             READY
    request  {"kernel": …, "architecture": 90}
    answer   {"code": …} or {"error": [type, text]}

Each is JSON after its length in 8 bytes; machine code is in base 64. The process imports Triton and no torch, so that
it never has a CUDA context. It ends with its input, and so with the process that started it.
"""

from __future__ import annotations

import base64
import json
import os
import signal
from dataclasses import asdict, replace
from typing import IO, Any

from cuesta.targets.program import KernelText, MachineCode

READY = {"ready": 1}
"""What a worker says when it can take requests."""


_LARGEST = 1 << 30
"""Bytes of a message."""


def send(stream: IO[bytes], message: dict[str, Any]) -> None:
    """Writes a message."""
    body = json.dumps(message).encode()
    stream.write(len(body).to_bytes(8, "little") + body)
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any] | None:
    """Reads a message; None when there are no more, or what comes is none."""
    header = stream.read(8)
    size = int.from_bytes(header, "little")
    if len(header) != 8 or size > _LARGEST:
        return None
    body = stream.read(size)
    return json.loads(body) if len(body) == size else None


def request(kernel: KernelText, architecture: int) -> dict[str, Any]:
    """The message that asks for a kernel."""
    return {"kernel": asdict(kernel), "architecture": architecture}


def kernel_of(message: dict[str, Any]) -> KernelText:
    """The kernel that a request is about."""
    fields = dict(message["kernel"])
    fields["signature"] = tuple((name, kind) for name, kind in fields["signature"])
    return KernelText(**fields)


def answer_with(code: MachineCode) -> dict[str, Any]:
    """The message that carries machine code."""
    return {"code": {**asdict(code), "binary": base64.b64encode(code.binary).decode()}}


def code_of(message: dict[str, Any]) -> MachineCode:
    """The machine code that an answer carries."""
    code = MachineCode(**message["code"])
    return replace(code, binary=base64.b64decode(code.binary))


def serve() -> None:
    """Answers until there are no more requests."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Triton and its tools print is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked decides
    from cuesta.targets.triton.compilation import compile_kernel, require_triton

    require_triton()
    try:
        send(sink, READY)
        while (message := receive(source)) is not None:
            try:
                answer = answer_with(compile_kernel(kernel_of(message), message["architecture"]))
            except Exception as error:  # noqa: BLE001  # Triton raises all kinds; who asked decides what it means
                answer = {"error": [type(error).__name__, str(error)]}
            send(sink, answer)
    except BrokenPipeError:
        os._exit(0)  # nobody listens; the ordinary way out would try to write once more
