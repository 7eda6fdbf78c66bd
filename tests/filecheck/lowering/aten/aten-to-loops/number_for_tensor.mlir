// A number may stand in a tensor's place: Dynamo writes `7 // x` as a floor_divide of 7.
// RUN: cuesta-opt %s -p aten-to-loops | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK:         elem.constant 7.0 : f32
// CHECK:         elem.fmod
// CHECK:         elem.constant 3 : i64
// CHECK:         elem.trunc_div
// CHECK-NOT:     loops.extern
func.func @main(%x : tensor<4xf32>, %i : tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %a = aten.div.Tensor_mode(7, %x, rounding_mode = "floor") : (tensor<4xf32>) -> tensor<4xf32>
  %b = aten.div.Tensor_mode(%i, 3, rounding_mode = "trunc") : (tensor<4xi64>) -> tensor<4xi64>
  func.return %a, %b : tensor<4xf32>, tensor<4xi64>
}
