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
// CHECK-SAME: schedule #loops.schedule<lanes = 16, prefetch = 512>
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

// -----

// Two numbers of 4 bits in a byte, and a scale for each group of 16: all of it is read where it is summed, of the points
// of a group, and nothing is made first.
// CHECK-NOT:  loops.nest (%{{.*}} : 32, %{{.*}} : 32)
// CHECK:      loops.nest (%{{.*}} : 1, %[[J:[0-9]+]] : 32)
// CHECK-SAME: schedule #loops.schedule<rows = 4, prefetch = 16384>
// CHECK-NEXT:   %{{.*}} = loops.reduce sum (%[[G:[0-9]+]] : 4, %k : 16)
// CHECK:          loops.load %x[{{.*}}, %[[G]] * 16 + %k]
// CHECK:          loops.load %w[%[[J]], %[[G]] * 16 + %k - 32] if
// CHECK:          loops.load %w[%[[J]], %[[G]] * 16 + %k] if
// CHECK:          loops.load %s[%[[J]], %[[G]]]
// CHECK:      func.return
func.func @main(%x : tensor<1x64xf32>, %w : tensor<32x32xui8>, %s : tensor<32x4xf32>) -> tensor<1x32xf32> {
  %low, %high = loops.nest (%0 : 32, %1 : 32) outs(%o : tensor<32x32xui8>, %p : tensor<32x32xui8>) {
    %l = loops.load %w[%0, %1] : tensor<32x32xui8>
    %15 = elem.constant 15 : ui8
    %a = elem.and %l, %15 : ui8
    loops.store %a, %o[%0, %1] : tensor<32x32xui8>
    %4 = elem.constant 4 : ui8
    %b = elem.shr %l, %4 : ui8
    loops.store %b, %p[%0, %1] : tensor<32x32xui8>
  }
  %d = loops.nest (%0 : 32, %1 : 4, %2 : 16) outs(%o : tensor<32x4x16xf32>) {
    %zero = elem.constant 0 : ui8
    %i = loops.index [%1 * 16 + %2] : i64
    %half = elem.constant 32 : i64
    %second = elem.ge %i, %half : i64
    %h = loops.load %high[%0, %1 * 16 + %2 - 32] if %second else %zero : tensor<32x32xui8>
    %first = elem.lt %i, %half : i64
    %n = loops.load %low[%0, %1 * 16 + %2] if %first else %h : tensor<32x32xui8>
    %c = elem.convert %n : ui8 to f32
    %f = loops.load %s[%0, %1] : tensor<32x4xf32>
    %v = elem.mul %c, %f : f32
    loops.store %v, %o[%0, %1, %2] : tensor<32x4x16xf32>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0 floordiv 16, d0 mod 16) : tensor<32x4x16xf32> to tensor<64x32xf32, #aten.layout<strides = [1, 64]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<1x64xf32>, tensor<64x32xf32, #aten.layout<strides = [1, 64]>>) -> tensor<1x32xf32>
  func.return %m : tensor<1x32xf32>
}
