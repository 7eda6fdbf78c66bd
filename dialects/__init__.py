"""The levels: what each one is. Ops, types, attributes, verifiers and textual syntax."""
