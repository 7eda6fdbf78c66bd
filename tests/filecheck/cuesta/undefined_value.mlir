// RUN: not cuesta-opt %s --split-input-file

func.func @main(%a: i32) -> i32 {
  func.return %a : i32
}
// -----
// CHECK: undefined_value.mlir:10:15
// CHECK: %b is used but not defined
func.func @main(%a: i32) -> i32 {
  func.return %b : i32
}
