"""`mode="reduce-overhead"`: what a compiled graph launches, as CUDA graphs.

`capturing.py` says what can be captured, and by what; `captured_function.py` captures and replays; `parts.py` divides a
graph around the calls that cannot be captured.
"""
