"""`aten` to `loops`: one module for each family of operators, with a table `RULES` from overload to rule.

`scalar` and `builder` are what rules are written with; `operands` answers questions about a call's tensors.
A new pointwise op is one row in `pointwise_table`; `library_calls` says what goes to a library on purpose.
"""
