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
// CHECK-SAME: schedule #loops.schedule<rows = 4, prefetch = 8192>
// CHECK:        } : f32
// CHECK-NEXT:   %{{.*}} = elem.convert %{{.*}} : f32 to bf16
// CHECK:      func.return %[[M]]
func.func @main(%x : tensor<1x512xbf16>, %w : tensor<1024x512xbf16>) -> tensor<1x1024xbf16> {
  %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<1024x512xbf16> to tensor<512x1024xbf16, #aten.layout<strides = [1, 512]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<1x512xbf16>, tensor<512x1024xbf16, #aten.layout<strides = [1, 512]>>) -> tensor<1x1024xbf16>
  func.return %m : tensor<1x1024xbf16>
}

// -----

// Attention of one query: keys side by side, columns of values together, and a mask that all heads share.
// CHECK-NOT:  loops.extern
// CHECK:      %[[S:[^ ]+]] = loops.nest (%[[B:[0-9]+]] : 1, %[[H:[0-9]+]] : 4, %[[T:[0-9]+]] : 512)
// CHECK-SAME: schedule #loops.schedule<rows = 4, prefetch = 4096>
// CHECK:        loops.load %q[0, %[[H]], 0, %{{.*}}]
// CHECK-NEXT:   loops.load %k[0, %[[H]], %[[T]], %{{.*}}]
// CHECK:        elem.constant 0.25
// CHECK:        loops.load %m[0, %[[T]]]
// CHECK:      loops.reduce maximum
// CHECK:      elem.exp
// CHECK:      %[[O:[^ ]+]] = loops.nest (%{{.*}} : 1, %{{.*}} : 4, %{{.*}} : 32)
// CHECK-SAME: schedule #loops.schedule<lanes = 32, prefetch = 4096>
// CHECK:        elem.div
// CHECK:      func.return %[[O]]
func.func @main(%q : tensor<1x4x1x32xf32>, %k : tensor<1x4x512x32xf32>, %v : tensor<1x4x512x32xf32>, %m : tensor<1x512xf32>) -> tensor<1x4x1x32xf32> {
  %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v, attn_mask = %m, scale = 0.25) : (tensor<1x4x1x32xf32>, tensor<1x4x512x32xf32>, tensor<1x4x512x32xf32>, tensor<1x512xf32>) -> (tensor<1x4x1x32xf32>, tensor<1x4x1xf32>)
  func.return %o : tensor<1x4x1x32xf32>
}

// -----

// A matrix of int8 that is converted and scaled for it alone is read as it lies; by two rows, too, and small ones.
// CHECK:      loops.nest (%{{.*}} : 2, %[[J:[0-9]+]] : 32)
// CHECK-SAME: schedule #loops.schedule<rows = 4, prefetch = 16384>
// CHECK-NEXT:   %{{.*}} = loops.reduce sum (%k : 48)
// CHECK:          loops.load %x[%{{.*}}, %k]
// CHECK-NEXT:     loops.load %w[%[[J]], %k] : tensor<32x48xi8>
// CHECK-NEXT:     elem.convert
// CHECK-NEXT:     loops.load %s[%[[J]]]
// CHECK-NEXT:     elem.mul
// CHECK:      func.return
func.func @main(%x : tensor<2x48xf32>, %w : tensor<32x48xi8>, %s : tensor<32xf32>) -> tensor<2x32xf32> {
  %d = loops.nest (%0 : 32, %1 : 48) outs(%o : tensor<32x48xf32>) {
    %l = loops.load %w[%0, %1] : tensor<32x48xi8>
    %c = elem.convert %l : i8 to f32
    %f = loops.load %s[%0] : tensor<32xf32>
    %p = elem.mul %c, %f : f32
    loops.store %p, %o[%0, %1] : tensor<32x48xf32>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<32x48xf32> to tensor<48x32xf32, #aten.layout<strides = [1, 48]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<2x48xf32>, tensor<48x32xf32, #aten.layout<strides = [1, 48]>>) -> tensor<2x32xf32>
  func.return %m : tensor<2x32xf32>
}

// -----

// One that lies row by row is walked down, in a batch, too.
// CHECK:      loops.nest (%{{.*}} : 3, %{{.*}} : 1, %{{.*}} : 32)
// CHECK-SAME: schedule #loops.schedule<lanes = 32, prefetch = 512>
// CHECK:      func.return
func.func @main(%x : tensor<3x1x48xf32>, %w : tensor<3x48x32xi8>) -> tensor<3x1x32xf32> {
  %d = loops.nest (%0 : 3, %1 : 48, %2 : 32) outs(%o : tensor<3x48x32xf32>) {
    %l = loops.load %w[%0, %1, %2] : tensor<3x48x32xi8>
    %c = elem.convert %l : i8 to f32
    loops.store %c, %o[%0, %1, %2] : tensor<3x48x32xf32>
  }
  %m = loops.extern pure "aten.bmm.default"(%x, %d) : (tensor<3x1x48xf32>, tensor<3x48x32xf32>) -> tensor<3x1x32xf32>
  func.return %m : tensor<3x1x32xf32>
}
