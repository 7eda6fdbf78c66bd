// RUN: not cuesta-opt %s -p materialize-views

// A copy has strides without overlaps. (No graph of PyTorch's asks for this: it got the strides from a view of a
// copy, and that is two views here.)
// CHECK:      refused.mlir:8  loops.view: is not strided, and no copy has the strides of tensor<4x8xf32, #aten.layout<strides = [0, 1]>>
// CHECK:      stage: materialize-views
func.func @main(%x : tensor<8xf32>) -> tensor<4x8xf32, #aten.layout<strides = [0, 1]>> {
  %v = loops.view %x by (d0, d1) -> (7 - d1) : tensor<8xf32> to tensor<4x8xf32, #aten.layout<strides = [0, 1]>>
  func.return %v : tensor<4x8xf32, #aten.layout<strides = [0, 1]>>
}
