// RUN: cuesta-opt %s -p "choose-products" --split-input-file

// Two numbers of 4 bits in a byte are two points of the sum: two sums, of which neither asks which half it has.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%{{.*}} : 32, %{{.*}} : 64) outs({{.*}}) schedule #loops.schedule<rows = {{.*}}, depth = {{.*}}>
// CHECK:     loops.reduce sum (%k : 128)
// CHECK:     loops.load %x[%{{.*}}, %k * 2]
// CHECK:     loops.load %w[%{{.*}}, %k]
// CHECK-NOT: elem.shr
// CHECK:     loops.load %s[%{{.*}}, %k floordiv 32]
// CHECK:     loops.reduce sum (%[[K:[^ ]+]] : 128)
// CHECK:     loops.load %x[%{{.*}}, %[[K]] * 2 + 1]
// CHECK:     elem.shr
// CHECK-NOT: elem.select
func.func @main(%x : tensor<32x256xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<64x128xui8, #aten.layout<device = "cuda:0">>, %s : tensor<64x4xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %d = loops.nest (%n : 64, %b : 128) outs(%o : tensor<64x256xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %w[%n, %b] : tensor<64x128xui8, #aten.layout<device = "cuda:0">>
    %1 = elem.constant 15 : ui8
    %2 = elem.constant 4 : ui8
    %3 = elem.and %0, %1 : ui8
    %4 = elem.shr %0, %2 : ui8
    %5 = elem.convert %3 : ui8 to f32
    %6 = elem.convert %4 : ui8 to f32
    %7 = loops.load %s[%n, %b floordiv 32] : tensor<64x4xbf16, #aten.layout<device = "cuda:0">>
    %8 = elem.convert %7 : bf16 to f32
    %9 = elem.mul %5, %8 : f32
    %10 = elem.mul %6, %8 : f32
    %11 = elem.convert %9 : f32 to bf16
    %12 = elem.convert %10 : f32 to bf16
    loops.store %11, %o[%n, %b * 2] : tensor<64x256xbf16, #aten.layout<device = "cuda:0">>
    loops.store %12, %o[%n, %b * 2 + 1] : tensor<64x256xbf16, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<64x256xbf16, #aten.layout<device = "cuda:0">> to tensor<256x64xbf16, #aten.layout<strides = [1, 256], device = "cuda:0">>
  %y = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<32x256xbf16, #aten.layout<device = "cuda:0">>, tensor<256x64xbf16, #aten.layout<strides = [1, 256], device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  func.return %y : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// The halves of a row lie one after the other.
// CHECK-NOT: loops.extern
// CHECK:     loops.reduce sum (%k : 128)
// CHECK:     loops.load %x[%{{.*}}, %k]
// CHECK:     loops.load %x[%{{.*}}, %{{.*}} + 128]
func.func @main(%x : tensor<32x256xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<64x128xui8, #aten.layout<device = "cuda:0">>, %s : tensor<64x4xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %d = loops.nest (%n : 64, %b : 128) outs(%o : tensor<64x256xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %w[%n, %b] : tensor<64x128xui8, #aten.layout<device = "cuda:0">>
    %1 = elem.constant 15 : ui8
    %2 = elem.constant 4 : ui8
    %3 = elem.and %0, %1 : ui8
    %4 = elem.shr %0, %2 : ui8
    %5 = elem.convert %3 : ui8 to f32
    %6 = elem.convert %4 : ui8 to f32
    %7 = loops.load %s[%n, %b floordiv 32] : tensor<64x4xbf16, #aten.layout<device = "cuda:0">>
    %8 = elem.convert %7 : bf16 to f32
    %9 = elem.mul %5, %8 : f32
    %10 = elem.mul %6, %8 : f32
    %11 = elem.convert %9 : f32 to bf16
    %12 = elem.convert %10 : f32 to bf16
    loops.store %11, %o[%n, %b] : tensor<64x256xbf16, #aten.layout<device = "cuda:0">>
    loops.store %12, %o[%n, %b + 128] : tensor<64x256xbf16, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<64x256xbf16, #aten.layout<device = "cuda:0">> to tensor<256x64xbf16, #aten.layout<strides = [1, 256], device = "cuda:0">>
  %y = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<32x256xbf16, #aten.layout<device = "cuda:0">>, tensor<256x64xbf16, #aten.layout<strides = [1, 256], device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  func.return %y : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// Rows that an index chooses: it is read, and checked, once for a row.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%{{.*}} : 32, %{{.*}} : 64)
// CHECK:     loops.bound %{{.*}}, 48 wrap
// CHECK:     loops.reduce sum (%k : 256)
// CHECK-NOT: loops.bound
// CHECK:     loops.load %x[%{{.*}}, %k]
func.func @main(%x : tensor<48x256xbf16, #aten.layout<device = "cuda:0">>, %i : tensor<32xi64, #aten.layout<device = "cuda:0">>, %w : tensor<256x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %g = loops.nest (%r : 32) outs(%o : tensor<32x256xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %i[%r] : tensor<32xi64, #aten.layout<device = "cuda:0">>
    %1 = loops.bound %0, 48 wrap : i64
    loops.for (%k : 256) {
      %2 = loops.load %x[%1, %k] : tensor<48x256xbf16, #aten.layout<device = "cuda:0">>
      loops.store %2, %o[%r, %k] : tensor<32x256xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %y = loops.extern pure "aten.mm.default"(%g, %w) : (tensor<32x256xbf16, #aten.layout<device = "cuda:0">>, tensor<256x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  func.return %y : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// Numbers of 8 bits that were only widened, multiplied in f32, which may not be rounded: 16 bits have them all.
// CHECK-NOT: loops.extern
// CHECK:     loops.reduce sum (%k : 256)
// CHECK:     elem.convert %{{.*}} : f32 to bf16
// CHECK:     elem.convert %{{.*}} : f32 to bf16
func.func @main(%a : tensor<32x256xf8E4M3FN, #aten.layout<device = "cuda:0">>, %b : tensor<64x256xf8E4M3FN, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">> {
  %c = loops.nest (%i : 32, %k : 256) outs(%o : tensor<32x256xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %a[%i, %k] : tensor<32x256xf8E4M3FN, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : f8E4M3FN to f32
    loops.store %1, %o[%i, %k] : tensor<32x256xf32, #aten.layout<device = "cuda:0">>
  }
  %d = loops.nest (%j : 64, %k : 256) outs(%o : tensor<64x256xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %b[%j, %k] : tensor<64x256xf8E4M3FN, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : f8E4M3FN to f32
    loops.store %1, %o[%j, %k] : tensor<64x256xf32, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<64x256xf32, #aten.layout<device = "cuda:0">> to tensor<256x64xf32, #aten.layout<strides = [1, 256], device = "cuda:0">>
  %y = loops.extern pure "aten.mm.default"(%c, %t) : (tensor<32x256xf32, #aten.layout<device = "cuda:0">>, tensor<256x64xf32, #aten.layout<strides = [1, 256], device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  func.return %y : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
}

// -----
// Near miss: one of them is a square, and has no type of fewer bits; it is multiplied in pieces.
// CHECK-NOT: f32 to bf16
// CHECK:     bf16x6 = 1
// CHECK-NOT: f32 to bf16
func.func @main(%a : tensor<32x256xf8E4M3FN, #aten.layout<device = "cuda:0">>, %b : tensor<64x256xf8E4M3FN, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">> {
  %c = loops.nest (%i : 32, %k : 256) outs(%o : tensor<32x256xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %a[%i, %k] : tensor<32x256xf8E4M3FN, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : f8E4M3FN to f32
    %2 = elem.mul %1, %1 : f32
    loops.store %2, %o[%i, %k] : tensor<32x256xf32, #aten.layout<device = "cuda:0">>
  }
  %d = loops.nest (%j : 64, %k : 256) outs(%o : tensor<64x256xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %b[%j, %k] : tensor<64x256xf8E4M3FN, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : f8E4M3FN to f32
    loops.store %1, %o[%j, %k] : tensor<64x256xf32, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<64x256xf32, #aten.layout<device = "cuda:0">> to tensor<256x64xf32, #aten.layout<strides = [1, 256], device = "cuda:0">>
  %y = loops.extern pure "aten.mm.default"(%c, %t) : (tensor<32x256xf32, #aten.layout<device = "cuda:0">>, tensor<256x64xf32, #aten.layout<strides = [1, 256], device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  func.return %y : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
}
