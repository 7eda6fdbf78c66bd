"""Reductions in parts: for the threads of a processor, for the programs of a GPU, and beside one another."""
