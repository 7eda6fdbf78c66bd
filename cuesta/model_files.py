"""Python files that define a model and its inputs: what the commands of `cuesta` take."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

DEFINES = """\
The file defines

    model            a torch.nn.Module, a function, or what torch.export.export gives; it may be called fn
    inputs           a tuple of positional arguments, or a list of such tuples
    kwargs           (if there are any) keyword arguments, a dictionary
    dynamic_shapes   (if there are any) as for torch.export.export
"""


class ModelFileError(ValueError):
    """A file that does not define what a command needs."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a file defines."""

    model: Any
    given_inputs: Any
    """As the file has them: a tuple, or a list of tuples."""
    kwargs: dict[str, Any] | None = None
    dynamic_shapes: Any = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The positional arguments of one call, the first that the file has."""
        return tuple(self.given_inputs[0] if isinstance(self.given_inputs, list) else self.given_inputs)


def read_model_file(path: str | os.PathLike[str]) -> ModelFile:
    """Runs a Python file, as `python FILE` without arguments does, and takes from it what it defines. What lies beside
    it can be imported from then on, unless Python was told to keep to safe paths.

    Errors: ModelFileError where a name is missing or is of another kind, or where the file raises something: it says
    what, and where in the file; OSError where there is no such file.
    """
    defined = vars(_module_of(os.fspath(path)))
    model = defined.get("model", defined.get("fn"))
    if model is None:
        raise ModelFileError(f"{path} defines no 'model' and no 'fn'\n\n{DEFINES}")
    if not callable(model):
        raise ModelFileError(f"{path}: 'model' is no module and no function, but {type(model).__name__}\n\n{DEFINES}")
    if "inputs" not in defined:
        raise ModelFileError(f"{path} defines no 'inputs'\n\n{DEFINES}")
    inputs, kwargs = defined["inputs"], defined.get("kwargs")
    calls = inputs if isinstance(inputs, list) else [inputs]
    if not calls or not all(isinstance(one, tuple) for one in calls):
        raise ModelFileError(f"{path}: 'inputs' is not a tuple of arguments, or a list of such tuples\n\n{DEFINES}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise ModelFileError(f"{path}: 'kwargs' is not a dictionary\n\n{DEFINES}")
    return ModelFile(model, inputs, kwargs, defined.get("dynamic_shapes"))


def _module_of(path: str) -> ModuleType:
    """Runs a file as a module, which Python can find by its name: Dynamo does, for functions that a model calls."""
    name = f"cuesta_model_{hashlib.sha256(os.path.abspath(path).encode()).hexdigest()[:16]}"
    loader = SourceFileLoader(name, path)
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    beside = os.path.dirname(os.path.realpath(path))
    if not sys.flags.safe_path and beside not in sys.path:
        sys.path.insert(0, beside)
    arguments, sys.argv = sys.argv, [path]
    try:
        loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SystemExit):
            raise ModelFileError(f"{path} ends the process (exit status {error.code}) when it is run") from error
        if not isinstance(error, Exception) or (isinstance(error, OSError) and not os.path.exists(path)):
            raise
        raise ModelFileError(f"{path} cannot be run\n\n{_told(error, path)}") from error
    finally:
        sys.argv = arguments
    return module


def _told(error: Exception, path: str) -> str:
    """An error as Python would tell of it, had it been asked to run the file: without what lies around that."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
