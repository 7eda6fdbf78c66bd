"""The collector of `.mlir` files fails where it should: a test that cannot fail tests nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.passes import ALL_PASSES
from tests.support import equivalence  # noqa: F401 -- pytester forgets what a test imports, and torch is imported only once

pytest_plugins = ["pytester"]

PROGRAM = "func.func @main(%a: i32) -> i32 {\n  func.return %a : i32\n}\n"

CASES = [
    ("// RUN: cuesta-opt %s\n// CHECK: func.return %a", "passed"),
    ("// RUN: cuesta-opt %s | filecheck %s\n// CHECK: func.return %a", "passed"),
    ("// RUN: cuesta-opt %s | filecheck %s --check-prefix=OTHER\n// OTHER: func.return %a", "passed"),
    ("// ROUNDTRIP", "passed"),
    ("// RUN: cuesta-opt %s\n// CHECK: func.return %b", "failed"),
    ("// RUN: cuesta-opt %s\n// CHECK-NOT: func.return", "failed"),
    ("// RUN: cuesta-opt %s | filecheck %s --check-prefix=OTHER\n// CHECK: func.return", "failed"),
    ("// RUN: not cuesta-opt %s\n// CHECK: anything", "failed"),
    ("// RUN: not cuesta-opt %s --no-such-option", "failed"),
    ("// RUN: not cuesta-opt %s -p no-such-pass\n// CHECK: there is no pass", "passed"),
    ("// RUN: not cuesta-opt %s -p no-such-pass\n// CHECK: something else", "failed"),
    ("// RUN: cuesta-opt %s -p no-such-pass", "failed"),
    ("// RUN: rm -rf %s", "failed"),
    ("// nothing to run", "failed"),
    (f"// ROUNDTRIP\n{PROGRAM}// -----\nfunc.func @other() {{ oh }}\n// -----", "failed"),
]
"""What stands above the program, and what becomes of it."""


@pytest.mark.slow
def test_outcomes(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    folder = pytester.mkdir("filecheck")
    for number, (header, _) in enumerate(CASES):
        (folder / f"case{number}.mlir").write_text(f"{header}\n{PROGRAM}")
    # One run for all: each imports everything anew.
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", "-rA")
    lines = result.outlines
    for number, (header, outcome) in enumerate(CASES):
        found = [
            line.split()[0]
            for line in lines
            if f"case{number}.mlir::" in line and "::same" not in line and line.startswith(("PASSED", "FAILED"))
        ]
        assert found == [outcome.upper()], header


class ForgetSignPass(ModulePass):
    name = "forget-sign"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "elem.neg":
                inner.results[0].replace_all_uses_with(inner.operands[0])


NEGATION = """
func.func @main(%x : tensor<3xf32>) -> tensor<3xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {
    %a = loops.load %x[%i] : tensor<3xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i] : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}
"""


def test_a_pass_that_changes_the_result_is_caught(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuesta.passes.ALL_PASSES", {**ALL_PASSES, "forget-sign": lambda: ForgetSignPass})
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    (pytester.mkdir("filecheck") / "case.mlir").write_text("// RUN: cuesta-opt %s -p dce,forget-sign,cse" + NEGATION)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", "-rA")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*forget-sign: result 0 is not the same: 3 of 3 elements differ*"])
