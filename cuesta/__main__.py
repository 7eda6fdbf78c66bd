"""`python -m cuesta` is `cuesta`."""

import sys

from cuesta.command import program

if __name__ == "__main__":
    sys.exit(program())
