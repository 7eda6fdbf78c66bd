"""Native functions as Python calls them: for each function a second one, which takes and gives Python's integers.

    define i64 @run_0(i64 %a0, i64 %a1, …)                             what it does
    define ptr @run_0.called(ptr %self, ptr %arguments, i64 %count)    the same, as a function built into Python

ctypes makes such a function at run time, out of what it reads in tables: 0.3 µs for four arguments, and 0.05 for each
more. This one is in the object code, and takes a quarter of that. As through ctypes, other threads run meanwhile.

Only functions of Python's stable interface are called, so the object code does not depend on Python's version. Where
the process has none of these functions (another Python than CPython) ctypes makes the call.

Source: `METH_FASTCALL`, `PyCFunction_NewEx` and PEP 384 (the stable interface) of Python's C API.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final

from cuesta.targets.cpu.libraries import has_python
from cuesta.targets.program import NativeFunction

_FASTCALL: Final = 0x80
"""The flag of a function that takes the address and the number of its arguments. Source: `METH_FASTCALL` in Python's
methodobject.h.
"""

_SHARED: Final = """\
declare i32 @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLongLong(i64)

; The values of so many integers of Python's; false with an error set if there are more or fewer, or others.
define internal i1 @cuesta.take(ptr %arguments, i64 %count, ptr %values, i64 %wanted) noinline {
  %right = icmp eq i64 %count, %wanted
  br i1 %right, label %next, label %wrong
wrong:
  %told = call i32 @PyErr_BadArgument()
  ret i1 false
next:
  %k = phi i64 [ 0, %0 ], [ %k.1, %one ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %taken
one:
  %argument.p = getelementptr inbounds ptr, ptr %arguments, i64 %k
  %argument = load ptr, ptr %argument.p, align 8
  %value = call ptr @PyLong_AsVoidPtr(ptr %argument)
  %value.p = getelementptr inbounds ptr, ptr %values, i64 %k
  store ptr %value, ptr %value.p, align 8
  %k.1 = add i64 %k, 1
  br label %next
taken:
  %error = call ptr @PyErr_Occurred()
  %good = icmp eq ptr %error, null
  ret i1 %good
}
"""
"""What the functions below share."""
_TAKE: Final = "@cuesta.take("


def entry_of(name: str) -> str | None:
    """The name of a native function as Python calls it; None where the process has not what that takes."""
    return f"{name}.called" if has_python() else None


def with_shared(text: str) -> str:
    """The text of a module, with what its functions share that Python calls, if it has any."""
    return f"{text}\n{_SHARED}" if _TAKE in text else text


def emit_entry(function: NativeFunction) -> str:
    """The function that Python calls in place of a native one; nothing where there is none."""
    if entry_of(function.name) is None:
        return ""
    count = function.arguments
    room = max(count, 1)
    lines = [f"%v{k}.p = getelementptr inbounds i64, ptr %values, i64 {k}" for k in range(count)]
    lines += [f"%v{k} = load i64, ptr %v{k}.p, align 8" for k in range(count)]
    values = ", ".join(f"i64 %v{k}" for k in range(count))
    loads = "".join(f"  {line}\n" for line in lines)
    return f"""define ptr @{entry_of(function.name)}(ptr %self, ptr %arguments, i64 %count) {{
  %values = alloca [{room} x i64], align 8
  %taken = call i1 {_TAKE}ptr %arguments, i64 %count, ptr %values, i64 {count})
  br i1 %taken, label %run, label %refused
refused:
  ret ptr null
run:
{loads}  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 @{function.name}({values}) noinline
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %result
}}
"""


class _Definition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Owner:
    """What a function that is built into Python keeps alive: the code that it runs, and its definition."""

    __slots__ = ("code", "definition")

    def __init__(self, code: object, definition: _Definition) -> None:
        self.code = code
        self.definition = definition


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
    definition = _Definition(function.name.encode(), symbols[function.entry], _FASTCALL, None)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    return make(ctypes.addressof(definition), _Owner(code, definition), None)


__all__ = ["emit_entry", "entry_of", "python_function", "with_shared"]
