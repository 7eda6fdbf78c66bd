// RUN: cuesta-opt %s --split-input-file -p eliminate-views,dce

// Near miss: two flips give x again, but as a copy. What the caller gets must not be a part of its own input.
// CHECK:      func.func @main
// CHECK-NEXT:   %f = loops.view %x by (d0) -> (-d0 + 7) : tensor<8xf32> to tensor<8xf32>
// CHECK-NEXT:   %g = loops.view %f by (d0) -> (-d0 + 7) : tensor<8xf32> to tensor<8xf32>
// CHECK-NEXT:   %h = loops.view %g by (d0) -> (d0 * 2)
// CHECK-NEXT:   func.return %g, %h : tensor<8xf32>, tensor<4xf32, #aten.layout<strides = [2]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32, #aten.layout<strides = [2]>>) {
  %f = loops.view %x by (d0) -> (7 - d0) : tensor<8xf32> to tensor<8xf32>
  %g = loops.view %f by (d0) -> (7 - d0) : tensor<8xf32> to tensor<8xf32>
  %h = loops.view %g by (d0) -> (d0 * 2) : tensor<8xf32> to tensor<4xf32, #aten.layout<strides = [2]>>
  func.return %g, %h : tensor<8xf32>, tensor<4xf32, #aten.layout<strides = [2]>>
}

// -----

// Fires: a library call only reads.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.extern pure "aten.cumsum.default"(%x, 0)
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
  %f = loops.view %x by (d0) -> (7 - d0) : tensor<8xf32> to tensor<8xf32>
  %g = loops.view %f by (d0) -> (7 - d0) : tensor<8xf32> to tensor<8xf32>
  %y = loops.extern pure "aten.cumsum.default"(%g, 0) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----

// Near miss: but if it gives back its operand's memory, the caller has that.
// CHECK:      func.func @main
// CHECK-NEXT:   %f = loops.view %x by (d0) -> (-d0 + 7) : tensor<8xf32> to tensor<8xf32>
// CHECK-NEXT:   %g = loops.view %f by (d0) -> (-d0 + 7) : tensor<8xf32> to tensor<8xf32>
// CHECK-NEXT:   %y = loops.extern pure "aten.view.dtype"(%g, torch.float32)
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
  %f = loops.view %x by (d0) -> (7 - d0) : tensor<8xf32> to tensor<8xf32>
  %g = loops.view %f by (d0) -> (7 - d0) : tensor<8xf32> to tensor<8xf32>
  %y = loops.extern pure "aten.view.dtype"(%g, torch.float32) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}
