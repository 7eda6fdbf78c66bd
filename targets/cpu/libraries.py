"""Addresses of the library functions that compiled code may call: libm, SLEEF (inside libtorch) and OpenMP."""

from __future__ import annotations

import ctypes
import functools
import glob
import os

# Functions of one argument with f32 and f64 forms, by their libm name, and SLEEF's accuracy suffix.
SLEEF_SUFFIX: dict[str, str] = {
    "acos": "u10", "acosh": "u10", "asin": "u10", "asinh": "u10", "atan": "u10", "atan2": "u10", "atanh": "u10",
    "cbrt": "u10", "cos": "u10", "cosh": "u10", "erf": "u10", "erfc": "u15", "exp": "u10", "exp2": "u10",
    "expm1": "u10", "hypot": "u05", "lgamma": "u10", "log": "u10", "log10": "u10", "log1p": "u10", "log2": "u10",
    "pow": "u10", "sin": "u10", "sinh": "u10", "tan": "u10", "tanh": "u10", "tgamma": "u10",
}  # fmt: skip

# LLVM calls these itself, for operations that have no instruction, and for two calls or a special case of one (`sincos`
# for the sine and cosine of one number, `exp10` for a power of ten, `ldexp` for one of two).
_SUPPORT_FUNCTIONS = (
    "memcpy",
    "memmove",
    "memset",
    "fma",
    "fmod",
    "trunc",
    "floor",
    "ceil",
    "rint",
    "nearbyint",
    "round",
    "roundeven",
    "sincos",
    "exp10",
    "ldexp",
)

PYTHON_FUNCTIONS = (
    "PyErr_BadArgument", "PyErr_Occurred", "PyEval_RestoreThread", "PyEval_SaveThread", "PyLong_AsVoidPtr",
    "PyLong_FromLongLong",
)  # fmt: skip
"""What makes a native function one of Python's (`python_calls.py`): of its stable interface, all of it."""

OPENMP_FUNCTIONS = (
    "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads", "omp_in_parallel",
)  # fmt: skip


def scalar_symbol(name: str, dtype: str) -> str:
    """The libm symbol of a scalar function: `exp` is `expf` for f32."""
    return name + "f" if dtype == "f32" else name


def sleef_symbol(name: str, dtype: str, lanes: int) -> str:
    """The SLEEF symbol for `lanes` values: `Sleef_expf8_u10`, `Sleef_expd4_u10`."""
    return f"Sleef_{name}{'f' if dtype == 'f32' else 'd'}{lanes}_{SLEEF_SUFFIX[name]}"


def address_in(library: ctypes.CDLL | None, symbol: str) -> int | None:
    """The address of `symbol`, or None when the library is absent or does not export it."""
    if library is None:
        return None
    try:
        function = getattr(library, symbol)
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


def _load(path: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(path)
    except OSError:
        return None


@functools.cache
def torch_library_folder() -> str:
    """The `lib` folder of the installed torch, whose libraries are in the process once torch is imported."""
    import torch

    return os.path.join(os.path.dirname(torch.__file__), "lib")


@functools.cache
def torch_library() -> ctypes.CDLL | None:
    """libtorch_cpu, which exports SLEEF."""
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll"):
        path = os.path.join(torch_library_folder(), name)
        if os.path.exists(path):
            return _load(path)
    return None


@functools.cache
def openmp_library() -> ctypes.CDLL | None:
    """torch's own OpenMP runtime, so that our threads are eager's threads; None when it has no `GOMP_parallel`.

    A symbol looked up in libtorch_cpu is found in what that was linked with. Another runtime in the process
    (TorchInductor's code may bring the system's) has threads of its own, which wait for work on the processors that
    eager needs.
    """
    torch_cpu = torch_library()
    if all(address_in(torch_cpu, symbol) for symbol in OPENMP_FUNCTIONS):
        return torch_cpu
    for path in sorted(glob.glob(os.path.join(torch_library_folder(), "lib*omp*"))):
        library = _load(path)
        if all(address_in(library, symbol) for symbol in OPENMP_FUNCTIONS):
            return library
    return None


@functools.cache
def math_library() -> ctypes.CDLL | None:
    """libm. (`ctypes.util.find_library` would start a subprocess.)"""
    for name in ("libm.so.6", "libSystem.dylib", "libm.so", "ucrtbase.dll"):
        library = _load(name)
        if library is not None:
            return library
    return None


@functools.cache
def process_library() -> ctypes.CDLL | None:
    """What the process itself finds by name: its allocator, also where that is another one than the C library's."""
    return math_library() if os.name == "nt" else ctypes.CDLL(None)


def free_record(address: int) -> None:
    """Gives back memory that compiled code has from `malloc`."""
    library = process_library()
    assert library is not None
    library.free(ctypes.c_void_p(address))


@functools.cache
def library_addresses() -> dict[str, int]:
    """Every library function that compiled code may name, with its address in this process (about 350; 1 ms)."""
    addresses: dict[str, int] = {}

    def add(library: ctypes.CDLL | None, symbol: str) -> None:
        address = address_in(library, symbol)
        if address is not None:
            addresses[symbol] = address

    for name in (*SLEEF_SUFFIX, *_SUPPORT_FUNCTIONS):
        for dtype, lane_counts in (("f32", (4, 8, 16)), ("f64", (2, 4, 8))):
            add(math_library(), scalar_symbol(name, dtype))
            if name in SLEEF_SUFFIX:
                for lanes in lane_counts:
                    add(torch_library(), sleef_symbol(name, dtype, lanes))
    for symbol in OPENMP_FUNCTIONS:
        add(openmp_library(), symbol)
    add(process_library(), "malloc")
    for symbol in PYTHON_FUNCTIONS:
        add(getattr(ctypes, "pythonapi", None), symbol)
    return addresses


@functools.cache
def has_python() -> bool:
    """Whether the process has what compiled code needs to be called by Python, without ctypes."""
    python = getattr(ctypes, "pythonapi", None)
    return all(address_in(python, symbol) for symbol in (*PYTHON_FUNCTIONS, "PyCFunction_NewEx"))
