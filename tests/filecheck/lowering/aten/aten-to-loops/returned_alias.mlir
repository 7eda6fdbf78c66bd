// A view that changes nothing is its source; returned, it is a tensor of its own.
// RUN: cuesta-opt %s -p aten-to-loops | filecheck %s

// CHECK:       %y = loops.nest
// CHECK:       %inner = loops.extern pure "aten.special_chebyshev_polynomial_t.default"(%y, %y)
// CHECK-NEXT:  %same = loops.view %y by (d0, d1) -> (d0, d1)
// CHECK-NEXT:  func.return %y, %same, %inner
func.func @main(%x : tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %y = aten.exp.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = aten.view.default(%y, [2, 3]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %inner = aten.special_chebyshev_polynomial_t.default(%z, %z) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %same = aten.view.default(%y, [2, 3]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y, %same, %inner : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
