// RUN: cuesta-opt %s -p align-products --split-input-file

// Three channels are four, of which the last one is 0: a stem.
// CHECK:      loops.nest (%{{.*}} : 64, %[[C:.*]] : 4, %{{.*}} : 224, %{{.*}} : 224)
// CHECK:      loops.load %x[{{.*}}] if %{{.*}} else
// CHECK:      loops.nest (%{{.*}} : 64, %{{.*}} : 4, %{{.*}} : 7, %{{.*}} : 7)
// CHECK:      loops.extern pure "aten.convolution.default"({{.*}}tensor<64x4x224x224xbf16, #aten.layout<strides = [200704, 1, 896, 4], device = "cuda:0">>, tensor<64x4x7x7xbf16
func.func @main(%x : tensor<64x3x224x224xbf16, #aten.layout<strides = [150528, 1, 672, 3], device = "cuda:0">>, %w : tensor<64x3x7x7xbf16, #aten.layout<strides = [147, 1, 21, 3], device = "cuda:0">>) -> tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [3, 3], [1, 1], false, [0, 0], 1) : (tensor<64x3x224x224xbf16, #aten.layout<strides = [150528, 1, 672, 3], device = "cuda:0">>, tensor<64x3x7x7xbf16, #aten.layout<strides = [147, 1, 21, 3], device = "cuda:0">>) -> tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">>
  %y = loops.nest (%n : 64, %c : 64, %i : 112, %j : 112) outs(%o : tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">>
    %1 = elem.neg %0 : bf16
    loops.store %1, %o[%n, %c, %i, %j] : tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">>
  }
  func.return %y : tensor<64x64x112x112xbf16, #aten.layout<strides = [802816, 1, 7168, 64], device = "cuda:0">>
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
