// RUN: cuesta-opt %s -p "choose-products" --split-input-file

// A convolution whose windows are points is a product: a row for each point of each image, which lies channels last.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%row : 32, %channel : 64) outs({{.*}}) schedule #loops.schedule<rows = {{.*}}, columns = {{.*}}, depth = {{.*}}>
// CHECK:     loops.reduce sum (%k : 64)
// CHECK:     loops.load %x[%row floordiv 16, %k, (%row floordiv 4) mod 4, %row mod 4]
// CHECK:     loops.load %w[%channel, %k, 0, 0]
// CHECK:     loops.store {{.*}}[%row floordiv 16, %channel, (%row floordiv 4) mod 4, %row mod 4]
func.func @main(%x : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// In steps, points between them are not read.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%row : 32, %channel : 64)
// CHECK:     loops.load %x[%row floordiv 16, %k, ((%row floordiv 4) mod 4) * 2, (%row mod 4) * 3]
func.func @main(%x : tensor<2x64x7x10xbf16, #aten.layout<strides = [4480, 1, 640, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 3], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x7x10xbf16, #aten.layout<strides = [4480, 1, 640, 64], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// Windows that do not overlap: the points of a sum are counted as they lie in memory, the channels fastest.
// CHECK-NOT: loops.extern
// CHECK:     loops.reduce sum (%k : 64)
// CHECK:     loops.load %x[%row floordiv 16, %k mod 16, (%k floordiv 32) + ((%row floordiv 4) mod 4) * 2, (%row mod 4) * 2 + ((%k floordiv 16) mod 2)]
// CHECK:     loops.load %w[%channel, %k mod 16, %k floordiv 32, (%k floordiv 16) mod 2]
func.func @main(%x : tensor<2x16x8x8xbf16, #aten.layout<strides = [1024, 1, 128, 16], device = "cuda:0">>, %w : tensor<64x16x2x2xbf16, #aten.layout<strides = [64, 1, 32, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x16x8x8xbf16, #aten.layout<strides = [1024, 1, 128, 16], device = "cuda:0">>, tensor<64x16x2x2xbf16, #aten.layout<strides = [64, 1, 32, 16], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 4, %j : 4) outs(%o : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  }
  func.return %y : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
}
