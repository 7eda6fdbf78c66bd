"""How each ATen overload becomes loops: one module per family, each with a table `RULES` from overload to rule.

`scalar` and `builder` are what rules are written with; `operands` answers questions about a call's tensors.
A new pointwise op is one row in `pointwise_table`.
"""
