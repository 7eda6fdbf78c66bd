"""The subcommands of `cuesta`, one module each; its name is the command's, with `-` for `_`.

A module has a first line of its docstring that `cuesta --help` shows, `arguments(parser)`, which adds to an argparse
parser what the command takes, and `run(chosen)`, which gives the exit status. What is imported at its top is imported
by every `cuesta`: nothing of weight.
"""
