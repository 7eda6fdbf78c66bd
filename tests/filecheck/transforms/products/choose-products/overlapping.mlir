// RUN: cuesta-opt %s -p "choose-products" --split-input-file

// Windows that overlap, of images with a margin: what lies in it is not read, and 0.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%row : 32, %channel : 64)
// CHECK:     loops.reduce sum (%k : 144)
// CHECK:     [[Y:%.+]] = loops.index [(%k floordiv 48) + ((%row floordiv 4) mod 4) - 1] : i32
// CHECK:     elem.ge [[Y]], {{%.+}} : i32
// CHECK:     elem.lt [[Y]], {{%.+}} : i32
// CHECK:     [[X:%.+]] = loops.index [(%row mod 4) + ((%k floordiv 16) mod 3) - 1] : i32
// CHECK:     elem.ge [[X]], {{%.+}} : i32
// CHECK:     elem.lt [[X]], {{%.+}} : i32
// CHECK:     [[THERE:%.+]] = elem.and
// CHECK:     loops.load %x[%row floordiv 16, %k mod 16, (%k floordiv 48) + ((%row floordiv 4) mod 4) - 1, (%row mod 4) + ((%k floordiv 16) mod 3) - 1] if [[THERE]] else
// CHECK:     loops.load %w[%channel, %k mod 16, %k floordiv 48, (%k floordiv 16) mod 3]
func.func @main(%x : tensor<2x16x4x4xbf16, #aten.layout<strides = [256, 1, 64, 16], device = "cuda:0">>, %w : tensor<64x16x3x3xbf16, #aten.layout<strides = [144, 1, 48, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x16x4x4xbf16, #aten.layout<strides = [256, 1, 64, 16], device = "cuda:0">>, tensor<64x16x3x3xbf16, #aten.layout<strides = [144, 1, 48, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 4, %j : 4) outs(%o : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  }
  func.return %y : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
}

// -----
// Without a margin nothing is masked.
// CHECK-NOT: loops.extern
// CHECK:     loops.load %x[%row floordiv 16, %k mod 16, (%k floordiv 32) + ((%row floordiv 4) mod 4), (%row mod 4) + ((%k floordiv 16) mod 2)] : tensor
func.func @main(%x : tensor<2x16x5x5xbf16, #aten.layout<strides = [400, 1, 80, 16], device = "cuda:0">>, %w : tensor<64x16x2x2xbf16, #aten.layout<strides = [64, 1, 32, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x16x5x5xbf16, #aten.layout<strides = [400, 1, 80, 16], device = "cuda:0">>, tensor<64x16x2x2xbf16, #aten.layout<strides = [64, 1, 32, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 4, %j : 4) outs(%o : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  }
  func.return %y : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
}

// -----
// With gaps.
// CHECK-NOT: loops.extern
// CHECK:     loops.load %x[%row floordiv 16, %k mod 16, (%k floordiv 32) * 2 + ((%row floordiv 4) mod 4) * 3, (%row mod 4) * 3 + ((%k floordiv 16) mod 2) * 2] : tensor
func.func @main(%x : tensor<2x16x12x12xbf16, #aten.layout<strides = [2304, 1, 192, 16], device = "cuda:0">>, %w : tensor<64x16x2x2xbf16, #aten.layout<strides = [64, 1, 32, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [3, 3], [0, 0], [2, 2], false, [0, 0], 1) : (tensor<2x16x12x12xbf16, #aten.layout<strides = [2304, 1, 192, 16], device = "cuda:0">>, tensor<64x16x2x2xbf16, #aten.layout<strides = [64, 1, 32, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 4, %j : 4) outs(%o : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  }
  func.return %y : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
}

// -----
// A margin around windows of one point.
// CHECK-NOT: loops.extern
// CHECK:     loops.index [((%row floordiv 4) mod 4) - 1] : i32
// CHECK:     loops.load %x[%row floordiv 16, %k, ((%row floordiv 4) mod 4) - 1, (%row mod 4) - 1] if
func.func @main(%x : tensor<2x64x2x2xbf16, #aten.layout<strides = [256, 1, 128, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x64x2x2xbf16, #aten.layout<strides = [256, 1, 128, 64], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 4, %j : 4) outs(%o : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  }
  func.return %y : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
}

// -----
// What comes before is done where an element is read; the margin is 0 after that, not before.
// CHECK-NOT: loops.extern
// CHECK:     [[X:%.+]] = loops.load %x[{{.*}}] if [[THERE:%.+]] else
// CHECK:     loops.load %s[%k mod 32] : tensor
// CHECK:     elem.add
// CHECK:     [[P:%.+]] = elem.convert {{.*}} : f32 to bf16
// CHECK:     elem.select [[THERE]], [[P]], {{%.+}} : bf16
func.func @main(%x : tensor<2x32x4x2xbf16, #aten.layout<strides = [256, 1, 64, 32], device = "cuda:0">>, %s : tensor<32xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<64x32x3x3xbf16, #aten.layout<strides = [288, 1, 96, 32], device = "cuda:0">>) -> tensor<2x64x4x2xbf16, #aten.layout<strides = [512, 1, 128, 64], device = "cuda:0">> {
  %p = loops.nest (%n : 2, %c : 32, %i : 4, %j : 2) outs(%o : tensor<2x32x4x2xbf16, #aten.layout<strides = [256, 1, 64, 32], device = "cuda:0">>) {
    %0 = loops.load %x[%n, %c, %i, %j] : tensor<2x32x4x2xbf16, #aten.layout<strides = [256, 1, 64, 32], device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = loops.load %s[%c] : tensor<32xbf16, #aten.layout<device = "cuda:0">>
    %3 = elem.convert %2 : bf16 to f32
    %4 = elem.add %1, %3 : f32
    %5 = elem.convert %4 : f32 to bf16
    loops.store %5, %o[%n, %c, %i, %j] : tensor<2x32x4x2xbf16, #aten.layout<strides = [256, 1, 64, 32], device = "cuda:0">>
  }
  %m = loops.extern pure "aten.convolution.default"(%p, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x32x4x2xbf16, #aten.layout<strides = [256, 1, 64, 32], device = "cuda:0">>, tensor<64x32x3x3xbf16, #aten.layout<strides = [288, 1, 96, 32], device = "cuda:0">>) -> tensor<2x64x4x2xbf16, #aten.layout<strides = [512, 1, 128, 64], device = "cuda:0">>
  func.return %m : tensor<2x64x4x2xbf16, #aten.layout<strides = [512, 1, 128, 64], device = "cuda:0">>
}
