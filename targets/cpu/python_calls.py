"""Native functions as Python calls them: a function that is built into Python for each, and no ctypes.

    define i64 @run_0(ptr %given)                                         what it does, with integers of 64 bits
    define ptr @cuesta.call(ptr %self, ptr %arguments, i64 %count)        calls such a function for Python

ctypes makes such a call out of what it reads in tables: 0.3 µs for four arguments, and 0.05 for each more. This one is
in the object code, once for all functions of a program, and takes a third of that. `%self` is a Python integer: where
the address of a function is, and how many integers it takes. As through ctypes, other threads run meanwhile.

Only functions of Python's stable interface are called, so the object code does not depend on Python's version. Where
the process has none of these functions (another Python than CPython) a native function takes its integers as
parameters, and ctypes calls it.

Source: `METH_FASTCALL`, `PyCFunction_NewEx` and PEP 384 (the stable interface) of Python's C API.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cuesta.targets.cpu.libraries import has_python
from cuesta.targets.program import NativeFunction

_FASTCALL: Final = 0x80
"""The flag of a function that takes the address and the number of its arguments. Source: `METH_FASTCALL` in Python's
methodobject.h.
"""

CALL: Final = "cuesta.call"
_PACKED: Final = "(ptr %given) nounwind {"
"""How the definitions of functions that it calls go on after their names."""
_SHARED: Final = f"""\
declare i32 @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLongLong(i64)

define ptr @{CALL}(ptr %self, ptr %arguments, i64 %count) {{
  %which = call ptr @PyLong_AsVoidPtr(ptr %self)
  %function = load ptr, ptr %which, align 8
  %wanted.p = getelementptr inbounds i64, ptr %which, i64 1
  %wanted = load i64, ptr %wanted.p, align 8
  %right = icmp eq i64 %count, %wanted
  br i1 %right, label %room, label %wrong
wrong:
  %told = call i32 @PyErr_BadArgument()
  ret ptr null
room:
  %values = alloca i64, i64 %count, align 8
  br label %next
next:
  %k = phi i64 [ 0, %room ], [ %k.1, %one ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %taken
one:
  %argument.p = getelementptr inbounds ptr, ptr %arguments, i64 %k
  %argument = load ptr, ptr %argument.p, align 8
  %value = call ptr @PyLong_AsVoidPtr(ptr %argument)
  %value.p = getelementptr inbounds i64, ptr %values, i64 %k
  store ptr %value, ptr %value.p, align 8
  %k.1 = add i64 %k, 1
  br label %next
taken:
  %error = call ptr @PyErr_Occurred()
  %good = icmp eq ptr %error, null
  br i1 %good, label %run, label %refused
refused:
  ret ptr null
run:
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 %function(ptr %values)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %result
}}
"""


def entry() -> str | None:
    """The function of the object code that Python calls in place of another; None where Python lacks what it takes."""
    return CALL if has_python() else None


def with_shared(text: str) -> str:
    """The text of a module, with the function that Python calls if the module has any that it is to call."""
    return f"{text}\n{_SHARED}" if _PACKED in text else text


def emit_function(name: str, parameters: Sequence[str], body: str) -> str:
    """A native function, of integers of these names, with the text of its body."""
    if entry() is None:
        return f"define i64 @{name}({', '.join(f'i64 {one}' for one in parameters)}) nounwind {{\n{body}}}\n"
    loads = "".join(
        f"  {one}.p = getelementptr inbounds i64, ptr %given, i64 {place}\n  {one} = load i64, ptr {one}.p, align 8\n"
        for place, one in enumerate(parameters)
    )
    return f"define i64 @{name}{_PACKED}\n{loads}{body}}}\n"


class _Definition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Which(ctypes.Structure):
    """What `CALL` finds at the address that it is given as itself."""

    _fields_ = (("function", ctypes.c_void_p), ("count", ctypes.c_int64))


def python_function(function: NativeFunction, symbols: Mapping[str, int], code: object) -> Callable[..., int]:
    """A native function as a function of Python's, of integers of 64 bits, signed or not. `symbols` has its address, in
    memory that lives as long as `code`, which the function keeps alive.

    Errors: when it is called with others, TypeError, OverflowError, or what ctypes raises.
    """
    if function.entry is None:
        # A c_void_p takes any integer, and is converted twice as fast as a c_int64.
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_void_p] * function.arguments))
        through_ctypes: Any = prototype(symbols[function.name])
        through_ctypes.code = code
        return through_ctypes
    which = _Which(symbols[function.name], function.arguments)
    definition = _Definition(function.name.encode(), symbols[function.entry], _FASTCALL, None)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    make: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    # It keeps its module alive, which may be anything.
    return make(ctypes.addressof(definition), ctypes.addressof(which), (code, which, definition))


__all__ = ["emit_function", "entry", "python_function", "with_shared"]
