"""`elem.dot` and `loops.words` as compiled code, beside the numbers that words are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.targets.cpu import emit_dot
from cuesta.targets.cpu.features import describe

PARTS = {"bf16": (2, "f32", "bf16", "bf16"), "i8": (4, "i32", "ui8", "i8")}

TEXT = """
builtin.module {
  func.func @main(%a : tensor<SIZESxFIRST>, %b : tensor<SIZESxSECOND>) -> (tensor<DOTSxRESULT>, tensor<ROWSxRESULT>) {
    %x = loops.words %a along 1 : tensor<SIZESxFIRST> to tensor<ROWSxWORDSxi32>
    %w = loops.words %b along 1 : tensor<SIZESxSECOND> to tensor<ROWSxWORDSxi32>
    %y = loops.nest (%i : ROWS, %j : WORDS) outs(%o : tensor<DOTSxRESULT>) {
      %1 = loops.load %x[%i, %j] : tensor<ROWSxWORDSxi32>
      %2 = loops.load %w[%i, %j] : tensor<ROWSxWORDSxi32>
      %3 = elem.dot PARTS of %1, %2 : i32
      loops.store %3, %o[%i, %j] : tensor<DOTSxRESULT>
    }
    %z = loops.nest (%i : ROWS) outs(%o : tensor<ROWSxRESULT>) {
      %s = loops.reduce sum (%j : WORDS) {
        %1 = loops.load %x[%i, %j] : tensor<ROWSxWORDSxi32>
        %2 = loops.load %w[%i, %j] : tensor<ROWSxWORDSxi32>
        %3 = elem.dot PARTS of %1, %2 : i32
        loops.yield %3 : RESULT
      } : RESULT
      loops.store %s, %o[%i] : tensor<ROWSxRESULT>
    }
    func.return %y, %z : tensor<DOTSxRESULT>, tensor<ROWSxRESULT>
  }
}"""


def numbers(kind: str, *sizes: int) -> Tensor:
    if kind == "bf16":
        return torch.randn(sizes).bfloat16()
    low, high, dtype = (0, 256, torch.uint8) if kind == "ui8" else (-128, 128, torch.int8)
    return torch.randint(low, high, sizes, dtype=dtype)


@pytest.mark.parametrize("words", [1, 3, 16, 37, 129])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("instruction", [True, False])
def test_dots_and_their_sums(
    words: int, parts: str, instruction: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not instruction:
        monkeypatch.setattr(emit_dot, "has_dot", lambda parts: False)
    count, result, first, second = PARTS[parts]
    names = {"SIZES": f"5x{words * count}", "DOTS": f"5x{words}", "ROWS": 5, "WORDS": words, "PARTS": parts}
    text = TEXT
    for name, value in {**names, "FIRST": first, "SECOND": second, "RESULT": result}.items():
        text = text.replace(name, str(value))
    path = tmp_path / "program.mlir"
    path.write_text(text)
    a, b = numbers(first, 5, words * count), numbers(second, 5, words * count)
    dots, sums = cuesta.load(path)(a, b)
    wide = torch.float64 if parts == "bf16" else torch.int64
    truth = (a.to(wide) * b.to(wide)).view(5, words, count)
    if parts == "i8":
        assert torch.equal(dots.long(), truth.sum(-1)) and torch.equal(sums.long(), truth.sum((1, 2)))
    else:
        sizes = truth.abs()
        assert ((dots.double() - truth.sum(-1)).abs() <= 2e-7 * sizes.sum(-1)).all()
        assert ((sums.double() - truth.sum((1, 2))).abs() <= 1e-6 * sizes.sum((1, 2))).all()


def test_which_machines_have_the_instructions() -> None:
    flags: dict[str, bool] = dict.fromkeys(("avx512f", "avx512vl", "avx512bf16", "avx512vnni"), True)
    machine = describe("x86_64-unknown-linux-gnu", flags)
    assert emit_dot.has_dot("bf16", machine) and emit_dot.has_dot("i8", machine)
    without = describe("x86_64-unknown-linux-gnu", {**flags, "avx512bf16": False})
    assert not emit_dot.has_dot("bf16", without) and emit_dot.has_dot("i8", without)
    assert not emit_dot.has_dot("i8", describe("aarch64-apple-darwin", {"neon": True}))
