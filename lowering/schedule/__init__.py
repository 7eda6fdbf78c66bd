"""How a nest runs: what is chosen for every target, and what a schedule is. `cpu/` and `gpu/` choose."""
