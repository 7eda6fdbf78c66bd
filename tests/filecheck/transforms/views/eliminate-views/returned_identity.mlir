// A view that is the identity goes, unless the caller gets it: two tensors that are returned must be two.
// RUN: cuesta-opt %s -p eliminate-views | filecheck %s

// CHECK:       func.func @main(%x
// CHECK-NEXT:    %y = loops.nest
// CHECK:         %alias = loops.view %y by (d0) -> (d0)
// CHECK-NEXT:    %z = loops.extern "aten.cumsum.default"(%y, 0)
// CHECK-NEXT:    func.return %y, %alias, %z
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    loops.store %a, %o[%i] : tensor<4xf32>
  }
  %alias = loops.view %y by (d0) -> (d0) : tensor<4xf32> to tensor<4xf32>
  %inner = loops.view %y by (d0) -> (d0) : tensor<4xf32> to tensor<4xf32>
  %z = loops.extern "aten.cumsum.default"(%inner, 0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y, %alias, %z : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
