"""Examples to run, and the demo models that tests and benchmarks share."""
