"""Which stage, rewrite or kernel made a program wrong: what `cuesta bisect` and `cuesta validate` are made of.

`bisect.py` says in which order it is asked: `stages.py` finds the stage, `reducing.py` makes the program small,
`states.py` and `rewrites.py` find the rewrite, `kernels.py` finds the kernel whose machine code is wrong.
"""
