// RUN: cuesta-opt %s -p aten-to-loops
func.func @main(%x : tensor<4x8xf32>, %w : tensor<8x2xf32>) -> tensor<4x2xf32> {
  %m = aten.mm.default(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %y = aten.relu.default(%m) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}
