// RUN: not cuesta-opt %s

// CHECK: use_before_definition.mlir:8  builtin.unrealized_conversion_cast: %late is used before
// CHECK-NEXT: %early = builtin.unrealized_conversion_cast %late
// CHECK-NEXT: ^^^^
// CHECK: got: i32
func.func @main(%a: i32) -> i32 {
  %early = builtin.unrealized_conversion_cast %late : i32 to i32
  %late = builtin.unrealized_conversion_cast %a : i32 to i32
  func.return %early : i32
}
