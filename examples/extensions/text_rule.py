"""A rule written as text, in MLIR's PDL, as xDSL interprets it: log e^x = x."""

import torch

from cuesta.extend import Extension, rules_of

TEXT = """
pdl.pattern @log_of_exp : benefit(1) {
  %type = pdl.type
  %x = pdl.operand
  %exp = pdl.operation "elem.exp" (%x : !pdl.value) -> (%type : !pdl.type)
  %e = pdl.result 0 of %exp
  %log = pdl.operation "elem.log" (%e : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %log {
    pdl.replace %log with (%x : !pdl.value)
  }
}
"""

extension = Extension("log-of-exp", rules=rules_of(TEXT))

if __name__ == "__main__":
    options: dict = {"extensions": [extension]}
    x = torch.tensor([1.0, 1000.0])
    print(torch.compile(lambda x: (x * 2).exp().log(), backend="cuesta", options=options)(x), (x * 2).exp().log())
