"""The reference interpreter: what a program means, at every level. The oracle of passes and targets.

It is written to be strict and plain, and is as fast as torch makes whole grids of points at a time.
"""

from cuesta.targets.reference.errors import InterpreterError
from cuesta.targets.reference.program import run
from cuesta.targets.reference.random_inputs import random_inputs
from cuesta.targets.reference.validate import NotEquivalentError, Watched, check_equivalent

__all__ = ["InterpreterError", "NotEquivalentError", "Watched", "check_equivalent", "random_inputs", "run"]
