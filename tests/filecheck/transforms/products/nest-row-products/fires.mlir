// RUN: cuesta-opt %s -p nest-row-products --split-input-file
// ROUNDTRIP

// One row, a bias, and a nest that follows: one nest, which says how it runs.
// CHECK-NOT:  loops.extern
// CHECK:      loops.nest (%{{.*}} : 1, %[[J:[0-9]+]] : 1024)
// CHECK-SAME: schedule #loops.schedule<rows = 4, prefetch = 4096>
// CHECK-NEXT:   %{{.*}} = loops.reduce sum (%k : 256)
// CHECK-NEXT:     %{{.*}} = loops.load %x[0, %k]
// CHECK-NEXT:     %{{.*}} = loops.load %w[%[[J]], %k]
// CHECK:        elem.exp
// CHECK-NOT:  loops.nest
// CHECK:      func.return %y
func.func @main(%x : tensor<1x256xf32>, %w : tensor<1024x256xf32>, %b : tensor<1024xf32>) -> tensor<1x1024xf32> {
  %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<1024x256xf32> to tensor<256x1024xf32, #aten.layout<strides = [1, 256]>>
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %t) : (tensor<1024xf32>, tensor<1x256xf32>, tensor<256x1024xf32, #aten.layout<strides = [1, 256]>>) -> tensor<1x1024xf32>
  %y = loops.nest (%0 : 1, %1 : 1024) outs(%o : tensor<1x1024xf32>) {
    %l = loops.load %c[%0, %1] : tensor<1x1024xf32>
    %e = elem.exp %l : f32
    loops.store %e, %o[%0, %1] : tensor<1x1024xf32>
  }
  func.return %y : tensor<1x1024xf32>
}

// -----

// In bf16 the sum is of f32, and rounded once. No nest follows.
// CHECK:      %[[M:.*]] = loops.nest
// CHECK-SAME: schedule #loops.schedule<rows = 4, prefetch = 4096>
// CHECK:        } : f32
// CHECK-NEXT:   %{{.*}} = elem.convert %{{.*}} : f32 to bf16
// CHECK:      func.return %[[M]]
func.func @main(%x : tensor<1x512xbf16>, %w : tensor<1024x512xbf16>) -> tensor<1x1024xbf16> {
  %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<1024x512xbf16> to tensor<512x1024xbf16, #aten.layout<strides = [1, 512]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<1x512xbf16>, tensor<512x1024xbf16, #aten.layout<strides = [1, 512]>>) -> tensor<1x1024xbf16>
  func.return %m : tensor<1x1024xbf16>
}
