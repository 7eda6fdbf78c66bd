"""`python -m cuesta` is `cuesta`."""

import sys

from cuesta.command import main

if __name__ == "__main__":
    sys.exit(main())
