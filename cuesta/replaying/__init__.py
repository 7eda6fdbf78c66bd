"""Dumped programs, run again and compared: what `cuesta run`, `cuesta diff` and `cuesta repro` do.

`replay.py` runs one, beside the reference interpreter; `comparing.py` says whether two results agree; `diffing.py`
compares texts, op by op; `repro.py` packs a graph for somebody else.
"""
