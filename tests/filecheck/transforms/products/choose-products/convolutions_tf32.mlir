// RUN: cuesta-opt %s -p "choose-products{tf32_convolutions=true}" --split-input-file

// A convolution of f32 may be rounded to TF32 where torch says so, of convolutions; and the nest says that it is.
// CHECK-NOT: loops.extern
// CHECK:     tf32 = 1
func.func @main(%x : tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xf32, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, tensor<64x64x1x1xf32, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 4, %j : 4) outs(%o : tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
    %2 = elem.tanh %0 : f32
    loops.store %2, %o[%n, %c, %i, %j] : tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  }
  func.return %y : tensor<2x64x4x4xf32, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
}

// -----
// Products have a setting of their own: these are not rounded.
// CHECK-NOT: tf32
// CHECK:     bf16x6 = 1
func.func @main(%a : tensor<32x64xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xf32, #aten.layout<device = "cuda:0">>, tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 32, %j : 64) outs(%o : tensor<32x64xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i, %j] : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
    %1 = elem.tanh %0 : f32
    loops.store %1, %o[%i, %j] : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
}
