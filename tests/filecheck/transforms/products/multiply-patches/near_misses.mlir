// RUN: cuesta-opt %s -p multiply-patches --split-input-file

// Near misses: windows that overlap.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, %w : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x4x5xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x4x5xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 5, %i : 4, %j : 5) outs(%o : tensor<2x5x4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x5x4x5xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x5x4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x5x4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Something is left out.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, %w : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x4x6xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [1, 1], [1, 1], true, [0, 0], 1) : (tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x4x6xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 5, %i : 4, %j : 6) outs(%o : tensor<2x5x4x6xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x5x4x6xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x5x4x6xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x5x4x6xf32, #aten.layout<device = "cuda:0">>
}

// -----

// A bias.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, %w : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>, %b : tensor<5xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, %b, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>, tensor<5xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 5, %i : 6, %j : 8) outs(%o : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
}

// -----

// The other way round.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x7x6x8xf32, #aten.layout<device = "cuda:0">>, %w : tensor<5x7x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x3x4xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x7x6x8xf32, #aten.layout<device = "cuda:0">>, tensor<5x7x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x3x4xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 5, %i : 3, %j : 4) outs(%o : tensor<2x5x3x4xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x5x3x4xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x5x3x4xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x5x3x4xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Groups.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x8x3x4xf32, #aten.layout<device = "cuda:0">>, %w : tensor<8x3x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x6x6x8xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 2) : (tensor<2x8x3x4xf32, #aten.layout<device = "cuda:0">>, tensor<8x3x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x6x6x8xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 6, %i : 6, %j : 8) outs(%o : tensor<2x6x6x8xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x6x6x8xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x6x6x8xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x6x6x8xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Sums of so many channels that f32 is slower than TF32.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<1x64x2x2xf32, #aten.layout<device = "cuda:0">>, %w : tensor<64x64x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<1x64x4x4xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<1x64x2x2xf32, #aten.layout<device = "cuda:0">>, tensor<64x64x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<1x64x4x4xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 1, %c : 64, %i : 4, %j : 4) outs(%o : tensor<1x64x4x4xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<1x64x4x4xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<1x64x4x4xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<1x64x4x4xf32, #aten.layout<device = "cuda:0">>
}

// -----

// A processor.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x7x3x4xf32>, %w : tensor<7x5x2x2xf32>) -> tensor<2x5x6x8xf32> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x7x3x4xf32>, tensor<7x5x2x2xf32>) -> tensor<2x5x6x8xf32>
  %y = loops.nest (%n : 2, %c : 5, %i : 6, %j : 8) outs(%o : tensor<2x5x6x8xf32>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x5x6x8xf32>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x5x6x8xf32>
  }
  func.return %y : tensor<2x5x6x8xf32>
}

// -----

// The caller, who would see a copy.
// CHECK:      "aten.convolution.default"(%x, %w
func.func @main(%x : tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, %w : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
  func.return %t : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
}
