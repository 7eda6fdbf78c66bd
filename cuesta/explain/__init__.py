"""What became of a program: `cuesta.explain(model, *inputs)`, and `cuesta explain` on the command line.

`model.py` says what is known, `watch.py` looks on while a program is compiled, `graphs.py` puts together what was
found; `terminal.py` and `page.py` show it. Nothing of this is imported by a compilation that nobody explains.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _CallableModule(types.ModuleType):
    """This module, called: what `cuesta.explain(model, *inputs)` is, and `cuesta.explain.model` lies in it."""

    def __call__(self, function: Any, /, *inputs: Any, **chosen: Any) -> Any:
        from cuesta.explain.explaining import explain

        return explain(function, *inputs, **chosen)


sys.modules[__name__].__class__ = _CallableModule
