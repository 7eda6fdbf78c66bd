// aten.call: an operator that has no op of its own; here one of `prims`.
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = aten.call "prims::neg.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
// -----
// aten.literal: what is returned and no tensor.
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, !aten.literal) {
  %none = aten.literal none : !aten.literal
  func.return %x, %none : tensor<4x8xf32>, !aten.literal
}
