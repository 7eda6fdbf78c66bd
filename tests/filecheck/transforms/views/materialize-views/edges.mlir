// RUN: cuesta-opt %s --split-input-file -p materialize-views

// No elements: any strides will do.
// CHECK:      func.func @main
// CHECK-NEXT:   %r = loops.view %x by (d0) -> (d0 mod 4, d0 floordiv 4) : tensor<0x8xf32> to tensor<0xf32>
// CHECK-NEXT:   func.return %r
// CHECK-NEXT: }
func.func @main(%x : tensor<0x8xf32>) -> tensor<0xf32> {
  %r = loops.view %x by (d0) -> (d0 mod 4, d0 floordiv 4) : tensor<0x8xf32> to tensor<0xf32>
  func.return %r : tensor<0xf32>
}

// -----

// Rank 0 and axes of size one: the strides of such axes do not matter.
// CHECK:      func.func @main
// CHECK-NEXT:   %v = loops.view %x by () -> (1, 2) : tensor<3x3xf32> to tensor<f32>
// CHECK-NEXT:   %w = loops.view %x by (d0, d1) -> (-d0 + 2, d1) : tensor<3x3xf32> to tensor<1x3xf32>
// CHECK-NEXT:   func.return %v, %w
// CHECK-NEXT: }
func.func @main(%x : tensor<3x3xf32>) -> (tensor<f32>, tensor<1x3xf32>) {
  %v = loops.view %x by () -> (1, 2) : tensor<3x3xf32> to tensor<f32>
  %w = loops.view %x by (d0, d1) -> (2 - d0, d1) : tensor<3x3xf32> to tensor<1x3xf32>
  func.return %v, %w : tensor<f32>, tensor<1x3xf32>
}

// -----

// Symbols: merging a transposed axis of s0 is a copy, splitting it is not.
// CHECK:      func.func @main
// CHECK-NEXT:   %r = loops.nest (%0 : s0 * 8) outs(%1: tensor<?xf32, #aten.layout<sizes = [s0 * 8]>>) {
// CHECK-NEXT:     %2 = loops.load %x[%0 mod s0, %0 floordiv s0] : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
// CHECK-NEXT:     loops.store %2, %1[%0] : tensor<?xf32, #aten.layout<sizes = [s0 * 8]>>
// CHECK-NEXT:   }
// CHECK-NEXT:   %t = loops.view %x by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   func.return %r, %t : tensor<?xf32, #aten.layout<sizes = [s0 * 8]>>, tensor<8x?xf32, #aten.layout<sizes = [8, s0], strides = [1, 8]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>) -> (tensor<?xf32, #aten.layout<sizes = [s0 * 8]>>, tensor<8x?xf32, #aten.layout<sizes = [8, s0], strides = [1, 8]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %r = loops.view %x by (d0)[s0] -> (d0 mod s0, d0 floordiv s0) : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>> to tensor<?xf32, #aten.layout<sizes = [s0 * 8]>>
  %t = loops.view %x by (d0, d1) -> (d1, d0) : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>> to tensor<8x?xf32, #aten.layout<sizes = [8, s0], strides = [1, 8]>>
  func.return %r, %t : tensor<?xf32, #aten.layout<sizes = [s0 * 8]>>, tensor<8x?xf32, #aten.layout<sizes = [8, s0], strides = [1, 8]>>
}
