"""CPU target: LLVM IR text in, machine code out."""
