"""What `tlparse` shows of us beside PyTorch's own: texts of the program, and what its compilation took.

They are artifacts of PyTorch's structured trace (`TORCH_TRACE=folder`), which a backend may add to. Where nobody
collects one, no text is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.record import CompileRecord


def trace_program(name: str, module: ModuleOp) -> None:
    """Adds the text of a program as it stands: `cuesta_aten`, `cuesta_host`."""

    def text() -> str:
        from cuesta.dialects.core.locations import print_text

        return print_text(module, locations=True)

    _artifact(f"cuesta_{name}", "string", text)


def trace_code(source: str) -> None:
    """Adds the text of a wrapper: `cuesta_wrapper`."""
    _artifact("cuesta_wrapper", "string", lambda: source)


def trace_record(record: CompileRecord) -> None:
    """Adds what `cuesta.records` has of a graph: `cuesta_record`."""

    def text() -> str:
        said = {one.name: getattr(record, one.name) for one in fields(record)}
        return json.dumps(said, default=str)

    _artifact("cuesta_record", "json", text)


def _artifact(name: str, encoding: str, payload: Callable[[], str]) -> None:
    from torch._logging import trace_structured  # pyright: ignore[reportPrivateImportUsage]  # backends call it

    trace_structured(
        "artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=payload, expect_trace_id=False
    )
