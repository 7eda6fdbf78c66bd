// RUN: cuesta-opt %s --split-input-file -p eliminate-views,dce

// Two views in a row are one, where strides can say it; an identity is none.
// CHECK:      func.func @main
// CHECK-NEXT:   %m = loops.extern pure "aten.mm.default"(%x, %w)
// CHECK-NEXT:   %s = loops.view %x by (d0, d1) -> (d1, d0 * 4 + 1)
// CHECK-NEXT:   func.return %m, %s : tensor<4x3xf32>, tensor<2x4xf32, #aten.layout<strides = [4, 8]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>, %w : tensor<8x3xf32>) -> (tensor<4x3xf32>, tensor<2x4xf32, #aten.layout<strides = [4, 8]>>) {
  %v = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %t = loops.view %v by (d0, d1) -> (d1, d0) : tensor<8x4xf32, #aten.layout<strides = [1, 8]>> to tensor<4x8xf32>
  %m = loops.extern pure "aten.mm.default"(%t, %w) : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %s = loops.view %v by (d0, d1) -> (d0 * 4 + 1, d1) : tensor<8x4xf32, #aten.layout<strides = [1, 8]>> to tensor<2x4xf32, #aten.layout<strides = [4, 8]>>
  func.return %m, %s : tensor<4x3xf32>, tensor<2x4xf32, #aten.layout<strides = [4, 8]>>
}

// -----

// Near miss: the composition of a transpose and a reshape has no strides. Neither has a flip.
// CHECK:      func.func @main
// CHECK-NEXT:   %v = loops.view %x by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   %r = loops.view %v by (d0) -> (d0 floordiv 4, d0 mod 4)
// CHECK-NEXT:   %f = loops.view %v by (d0, d1) -> (-d0 + 7, d1)
// CHECK-NEXT:   func.return %r, %f
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<32xf32>, tensor<8x4xf32>) {
  %v = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %r = loops.view %v by (d0) -> (d0 floordiv 4, d0 mod 4) : tensor<8x4xf32, #aten.layout<strides = [1, 8]>> to tensor<32xf32>
  %f = loops.view %v by (d0, d1) -> (7 - d0, d1) : tensor<8x4xf32, #aten.layout<strides = [1, 8]>> to tensor<8x4xf32>
  func.return %r, %f : tensor<32xf32>, tensor<8x4xf32>
}

// -----

// Near miss: the same elements in other memory are not the same value.
// CHECK:      func.func @main
// CHECK-NEXT:   %v = loops.view %x by (d0, d1) -> (d0, d1)
// CHECK-NEXT:   %m = loops.extern pure "aten.mm.default"(%v, %w)
// CHECK-NEXT:   func.return %m
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>, %w : tensor<8x3xf32>) -> tensor<4x3xf32> {
  %v = loops.view %x by (d0, d1) -> (d0, d1) : tensor<4x8xf32> to tensor<4x8xf32, #aten.layout<strides = [1, 4]>>
  %m = loops.extern pure "aten.mm.default"(%v, %w) : (tensor<4x8xf32, #aten.layout<strides = [1, 4]>>, tensor<8x3xf32>) -> tensor<4x3xf32>
  func.return %m : tensor<4x3xf32>
}
