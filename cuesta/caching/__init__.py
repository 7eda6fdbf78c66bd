"""Compiled graphs on disk, so that the next process starts warm: see docs/cache.md.

`key.py` names a graph (`graph_key.py`, `device_numbers.py`), `cache.py` looks it up, `entry.py` is what a file holds,
`files.py` says whose files are taken; `place.py` is what the compiler asks, `turns.py` lets one of several processes
compile.
"""
