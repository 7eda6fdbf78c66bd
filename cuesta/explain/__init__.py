"""What became of a program: `cuesta explain`. `model.py` says what is known, the other modules find it out and show it.

Nothing of this is imported by a compilation.
"""
