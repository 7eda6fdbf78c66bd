// RUN: cuesta-opt %s -p materialize-views

// A library call that reads memory with gaps does not mind to read memory without.
// CHECK:      func.func @main
// CHECK-NEXT:   %v = loops.nest (%0 : 4) outs(%1: tensor<4xf32>) {
// CHECK-NEXT:     %2 = loops.load %x[-%0 * 2 + 7]
// CHECK-NEXT:     loops.store %2, %1[%0]
// CHECK-NEXT:   }
// CHECK-NEXT:   %y = loops.extern pure "aten.cumsum.default"(%v, 0)
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<8xf32>) -> tensor<4xf32> {
  %v = loops.view %x by (d0) -> (7 - d0 * 2) : tensor<8xf32> to tensor<4xf32, #aten.layout<strides = [2]>>
  %y = loops.extern pure "aten.cumsum.default"(%v, 0) : (tensor<4xf32, #aten.layout<strides = [2]>>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
