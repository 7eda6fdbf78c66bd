// RUN: cuesta-opt %s --split-input-file
// ROUNDTRIP

// CHECK: func.func @main(%a: i32) -> i32 {
// CHECK-NEXT: func.return %a : i32
func.func @main(%a: i32) -> i32 {
  func.return %a : i32
}

// -----
// CHECK: func.func @main(%b: f32) -> f32 {
// CHECK-NEXT: func.return %b : f32
func.func @main(%b: f32) -> f32 {
  func.return %b : f32
}
