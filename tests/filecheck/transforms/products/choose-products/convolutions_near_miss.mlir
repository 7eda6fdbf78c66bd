// RUN: cuesta-opt %s -p "choose-products" --split-input-file

// f32 is not rounded to TF32 unasked.
// CHECK: loops.extern pure "aten.convolution.default"
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
// Images lie channels first: a row of channels is no row of memory.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 4, %j : 4) outs(%o : tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%n, %c, %i, %j] : tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x64x4x4xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// Groups.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x128x4x4xbf16, #aten.layout<strides = [2048, 1, 512, 128], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2) : (tensor<2x128x4x4xbf16, #aten.layout<strides = [2048, 1, 512, 128], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// Transposed: every point gives a window.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<strides = [64, 1, 64, 64], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// Windows have gaps, and so do their elements in memory: there is one channel.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x1x12x12xbf16, #aten.layout<strides = [144, 1, 12, 1], device = "cuda:0">>, %w : tensor<64x1x2x2xbf16, #aten.layout<strides = [4, 1, 2, 1], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [3, 3], [0, 0], [2, 2], false, [0, 0], 1) : (tensor<2x1x12x12xbf16, #aten.layout<strides = [144, 1, 12, 1], device = "cuda:0">>, tensor<64x1x2x2xbf16, #aten.layout<strides = [4, 1, 2, 1], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// A weight that does not lie as the images do.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x16x8x8xbf16, #aten.layout<strides = [1024, 1, 128, 16], device = "cuda:0">>, %w : tensor<64x16x2x2xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x16x8x8xbf16, #aten.layout<strides = [1024, 1, 128, 16], device = "cuda:0">>, tensor<64x16x2x2xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// One channel: there is nothing to sum.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x1x4x4xbf16, #aten.layout<strides = [16, 1, 4, 1], device = "cuda:0">>, %w : tensor<64x1x1x1xbf16, #aten.layout<strides = [1, 1, 1, 1], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x1x4x4xbf16, #aten.layout<strides = [16, 1, 4, 1], device = "cuda:0">>, tensor<64x1x1x1xbf16, #aten.layout<strides = [1, 1, 1, 1], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// The last step of a tile would have no points for some lanes.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x72x4x4xbf16, #aten.layout<strides = [1152, 1, 288, 72], device = "cuda:0">>, %w : tensor<64x72x1x1xbf16, #aten.layout<strides = [72, 1, 72, 72], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x72x4x4xbf16, #aten.layout<strides = [1152, 1, 288, 72], device = "cuda:0">>, tensor<64x72x1x1xbf16, #aten.layout<strides = [72, 1, 72, 72], device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
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
// What is stored lies channels first, and its images are no whole vectors.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x64x3x3xbf16, #aten.layout<strides = [576, 1, 192, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x3x3xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x3x3xbf16, #aten.layout<strides = [576, 1, 192, 64], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x3x3xbf16, #aten.layout<strides = [576, 1, 192, 64], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 64, %i : 3, %j : 3) outs(%o : tensor<2x64x3x3xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<2x64x3x3xbf16, #aten.layout<strides = [576, 1, 192, 64], device = "cuda:0">>
    loops.store %0, %o[%n, %c, %i, %j] : tensor<2x64x3x3xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x64x3x3xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// Nothing surrounds it.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">> {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
  func.return %m : tensor<2x64x4x4xbf16, #aten.layout<strides = [1024, 1, 256, 64], device = "cuda:0">>
}

// -----
// How many images there are only the call knows.
// CHECK: loops.extern pure "aten.convolution.default"
func.func @main(%x : tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">>, %w : tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">> attributes {sym.symbols = #sym.symbols<s0 in [1, inf]>} {
  %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">>, tensor<64x64x1x1xbf16, #aten.layout<device = "cuda:0">>) -> tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">>
  %y = loops.nest (%n : s0, %c : 64, %i : 4, %j : 4) outs(%o : tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">>) {
    %0 = loops.load %m[%n, %c, %i, %j] : tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">>
    loops.store %0, %o[%n, %c, %i, %j] : tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">>
  }
  func.return %y : tensor<?x64x4x4xbf16, #aten.layout<sizes = [s0, 64, 4, 4], strides = [1024, 1, 256, 64], device = "cuda:0">>
}
