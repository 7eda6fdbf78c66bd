// RUN: cuesta-opt %s --split-input-file -p eliminate-views,dce

// Rank 0.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest () outs(%o: tensor<f32>) {
// CHECK-NEXT:     %a = loops.load %x[1, 2]
// CHECK-NEXT:     %b = elem.neg %a
// CHECK-NEXT:     loops.store %b, %o[]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<3x3xf32>) -> tensor<f32> {
  %v = loops.view %x by () -> (1, 2) : tensor<3x3xf32> to tensor<f32>
  %y = loops.nest () outs(%o : tensor<f32>) {
    %a = loops.load %v[] : tensor<f32>
    %b = elem.neg %a : f32
    loops.store %b, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----

// No elements.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 2, %j : 0) outs(%o: tensor<2x0xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%j, %i * 4]
// CHECK-NEXT:     loops.store %a, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<0x8xf32>) -> tensor<2x0xf32> {
  %v = loops.view %x by (d0, d1) -> (d1, d0 * 4) : tensor<0x8xf32> to tensor<2x0xf32>
  %y = loops.nest (%i : 2, %j : 0) outs(%o : tensor<2x0xf32>) {
    %a = loops.load %v[%i, %j] : tensor<2x0xf32>
    loops.store %a, %o[%i, %j] : tensor<2x0xf32>
  }
  func.return %y : tensor<2x0xf32>
}

// -----

// Symbols: splitting an axis of s0 · 4 and merging it again leaves nothing.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : s0 * 4, %j : 8) outs(%o: tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>) {
// CHECK-NEXT:     %a = loops.load %x[%i, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
// CHECK-NEXT:     %b = loops.load %x[-%i + s0 * 4 - 1, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
// CHECK-NEXT:     %c = elem.sub %a, %b
// CHECK-NEXT:     loops.store %c, %o[%i, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>) -> tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>> attributes {sym.symbols = #sym.symbols<s0 in [1, 64]>} {
  %v = loops.view %x by (d0, d1, d2) -> (d0 * 4 + d1, d2) : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>> to tensor<?x4x8xf32, #aten.layout<sizes = [s0, 4, 8]>>
  %w = loops.view %v by (d0, d1) -> (d0 floordiv 4, d0 mod 4, d1) : tensor<?x4x8xf32, #aten.layout<sizes = [s0, 4, 8]>> to tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
  %f = loops.view %w by (d0, d1)[s0] -> (s0 * 4 - 1 - d0, d1) : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>> to tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
  %y = loops.nest (%i : s0 * 4, %j : 8) outs(%o : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>) {
    %a = loops.load %w[%i, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
    %b = loops.load %f[%i, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
    %c = elem.sub %a, %b : f32
    loops.store %c, %o[%i, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
  }
  func.return %y : tensor<?x8xf32, #aten.layout<sizes = [s0 * 4, 8]>>
}
