// RUN: cuesta-opt %s -p align-products --split-input-file

// Three channels are four, of which the last one is 0: a stem, of small images with large windows (of large images: test_overlapping_convolutions.py).
// CHECK:      loops.nest (%{{.*}} : 32, %[[C:.*]] : 4, %{{.*}} : 56, %{{.*}} : 56)
// CHECK:      loops.load %x[{{.*}}] if %{{.*}} else
// CHECK:      loops.nest (%{{.*}} : 16, %{{.*}} : 4, %{{.*}} : 15, %{{.*}} : 15)
// CHECK:      loops.extern pure "aten.convolution.default"({{.*}}tensor<32x4x56x56xbf16, #aten.layout<strides = [12544, 1, 224, 4], device = "cuda:0">>, tensor<16x4x15x15xbf16
func.func @main(%x : tensor<32x3x56x56xbf16, #aten.layout<strides = [9408, 1, 168, 3], device = "cuda:0">>, %w : tensor<16x3x15x15xbf16, #aten.layout<strides = [675, 1, 45, 3], device = "cuda:0">>) -> tensor<32x16x28x28xbf16, #aten.layout<strides = [12544, 1, 448, 16], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [7, 7], [1, 1], false, [0, 0], 1) : (tensor<32x3x56x56xbf16, #aten.layout<strides = [9408, 1, 168, 3], device = "cuda:0">>, tensor<16x3x15x15xbf16, #aten.layout<strides = [675, 1, 45, 3], device = "cuda:0">>) -> tensor<32x16x28x28xbf16, #aten.layout<strides = [12544, 1, 448, 16], device = "cuda:0">>
  %y = loops.nest (%n : 32, %c : 16, %i : 28, %j : 28) outs(%o : tensor<32x16x28x28xbf16, #aten.layout<strides = [12544, 1, 448, 16], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<32x16x28x28xbf16, #aten.layout<strides = [12544, 1, 448, 16], device = "cuda:0">>
    %1 = elem.neg %0 : bf16
    loops.store %1, %o[%n, %c, %i, %j] : tensor<32x16x28x28xbf16, #aten.layout<strides = [12544, 1, 448, 16], device = "cuda:0">>
  }
  func.return %y : tensor<32x16x28x28xbf16, #aten.layout<strides = [12544, 1, 448, 16], device = "cuda:0">>
}

// -----
// Eight channels are a vector.
// CHECK-NOT:  loops.nest (%{{.*}} : 2, %{{.*}} : 8, %{{.*}} : 64
// CHECK:      loops.extern pure "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x8x64x64xbf16, #aten.layout<strides = [32768, 1, 512, 8], device = "cuda:0">>, %w : tensor<64x8x3x3xbf16, #aten.layout<strides = [72, 1, 24, 8], device = "cuda:0">>) -> tensor<2x64x64x64xbf16, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x64x64xbf16, #aten.layout<strides = [32768, 1, 512, 8], device = "cuda:0">>, tensor<64x8x3x3xbf16, #aten.layout<strides = [72, 1, 24, 8], device = "cuda:0">>) -> tensor<2x64x64x64xbf16, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 64, %j : 64) outs(%o : tensor<2x64x64x64xbf16, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x64x64xbf16, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>
    %1 = elem.neg %0 : bf16
    loops.store %1, %o[%n, %c, %i, %j] : tensor<2x64x64x64xbf16, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>
  }
  func.return %y : tensor<2x64x64x64xbf16, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>
}

// -----
// Nothing surrounds it: the library's kernel stays as it is.
// CHECK:      loops.extern pure "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<64x3x224x224xbf16, #aten.layout<strides = [150528, 1, 672, 3], device = "cuda:0">>, %w : tensor<64x3x7x7xbf16, #aten.layout<strides = [147, 1, 21, 3], device = "cuda:0">>) -> tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [3, 3], [1, 1], false, [0, 0], 1) : (tensor<64x3x224x224xbf16, #aten.layout<strides = [150528, 1, 672, 3], device = "cuda:0">>, tensor<64x3x7x7xbf16, #aten.layout<strides = [147, 1, 21, 3], device = "cuda:0">>) -> tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">>
  func.return %m : tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">>
}
