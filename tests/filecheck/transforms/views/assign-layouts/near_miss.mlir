// RUN: cuesta-opt %s -p assign-layouts --split-input-file

// Nobody has measured convolutions of volumes in groups on a GPU.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1, 1], [1, 1, 1], [1, 1, 1], false, [0, 0, 0], 2)
// CHECK-NOT:    strides
func.func @main(%x : tensor<2x8x6x6x6xf32, #aten.layout<device = "cuda:0">>, %w : tensor<8x4x3x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<f32, #aten.layout<device = "cuda:0">> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1, 1], [1, 1, 1], [1, 1, 1], false, [0, 0, 0], 2) : (tensor<2x8x6x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<8x4x3x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x8x6x6x6xf32, #aten.layout<device = "cuda:0">>
  %s = loops.nest () outs(%o : tensor<f32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %a[0, 0, 0, 0, 0] : tensor<2x8x6x6x6xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[] : tensor<f32, #aten.layout<device = "cuda:0">>
  }
  func.return %s : tensor<f32, #aten.layout<device = "cuda:0">>
}

// -----

// In f64 the library on the CPU has but one layout.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
// CHECK-SAME:     -> tensor<2x8x6x6xf64>
// CHECK-NOT:    strides
func.func @main(%x : tensor<2x8x6x6xf64>, %w : tensor<8x8x3x3xf64>) -> tensor<f64> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf64>, tensor<8x8x3x3xf64>) -> tensor<2x8x6x6xf64>
  %s = loops.nest () outs(%o : tensor<f64>) {
    %l = loops.load %a[0, 0, 0, 0] : tensor<2x8x6x6xf64>
    loops.store %l, %o[] : tensor<f64>
  }
  func.return %s : tensor<f64>
}

// -----

// One convolution of an input, for the caller: two copies for two tensors.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.extern
// CHECK-NEXT:   func.return %a : tensor<2x8x6x6xf32>
func.func @main(%x : tensor<2x8x6x6xf32>, %w : tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  func.return %a : tensor<2x8x6x6xf32>
}

// -----

// One place, many channels: both layouts are the same.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%0 : 2, %1 : 8) outs(%o: tensor<2x8x1x1xf32>) {
// CHECK:        %a = loops.extern pure "aten.convolution.default"(%y, %w
// CHECK-NOT:    strides
func.func @main(%x : tensor<2x8x1x1xf32>, %w : tensor<8x8x1x1xf32>) -> tensor<2x8x1x1xf32> {
  %y = loops.nest (%0 : 2, %1 : 8) outs(%o : tensor<2x8x1x1xf32>) {
    %l = loops.load %x[%0, %1, 0, 0] : tensor<2x8x1x1xf32>
    loops.store %l, %o[%0, %1, 0, 0] : tensor<2x8x1x1xf32>
  }
  %a = loops.extern pure "aten.convolution.default"(%y, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x8x1x1xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x1x1xf32>
  func.return %a : tensor<2x8x1x1xf32>
}

// -----

// On a GPU convolutions of single points take as long in either layout; on the CPU they would pay for a copy.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.extern pure "aten.convolution.default"(%x, %w
// CHECK-NEXT:   %b = loops.extern pure "aten.convolution.default"(%a, %w
// CHECK-NOT:    strides
func.func @main(%x : tensor<2x64x8x8xf32, #aten.layout<device = "cuda:0">>, %w : tensor<64x64x1x1xf32, #aten.layout<device = "cuda:0">>) -> tensor<f32, #aten.layout<device = "cuda:0">> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x8x8xf32, #aten.layout<device = "cuda:0">>, tensor<64x64x1x1xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64x8x8xf32, #aten.layout<device = "cuda:0">>
  %b = loops.extern pure "aten.convolution.default"(%a, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x64x8x8xf32, #aten.layout<device = "cuda:0">>, tensor<64x64x1x1xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64x8x8xf32, #aten.layout<device = "cuda:0">>
  %s = loops.nest () outs(%o : tensor<f32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %b[0, 0, 0, 0] : tensor<2x64x8x8xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[] : tensor<f32, #aten.layout<device = "cuda:0">>
  }
  func.return %s : tensor<f32, #aten.layout<device = "cuda:0">>
}

// -----

// A backward pass on a processor, whose libraries are not asked.
// CHECK:      loops.extern pure "aten.convolution_backward.default"(%dy, %x, %w,
func.func @main(%dy : tensor<2x8x6x6xf32>, %x : tensor<2x8x6x6xf32>, %w : tensor<8x8x3x3xf32>) -> (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) {
  %dx, %dw, %db = loops.extern pure "aten.convolution_backward.default"(%dy, %x, %w, [8], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]) : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>, !aten.literal)
  func.return %dx, %dw : tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>
}

// -----

// A norm of an image of ours, whose loops go along its pixels, stores along them too: in between is a nest without loops.
// CHECK:      %y = loops.nest
// CHECK-NOT:    strides
// CHECK:      %n = loops.nest (%0 : 128)
// CHECK-NOT:    strides
// CHECK:      %m = loops.nest
// CHECK-SAME:   strides = [65536, 1, 2048, 64]
func.func @main(%x : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>, %w : tensor<64x64x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%0 : 2, %1 : 64, %2 : 32, %3 : 32) outs(%o : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %x[%0, %1, 31 - %2, %3] : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1, %2, %3] : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
  }
  %n = loops.nest (%0 : 128) outs(%o : tensor<1x128x32x32xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%1 : 32, %2 : 32) {
      %l = loops.load %y[%0 floordiv 64, %0 mod 64, %1, %2] : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
      loops.yield %l : f32
    } : f32
    loops.for (%1 : 32, %2 : 32) {
      %l = loops.load %y[%0 floordiv 64, %0 mod 64, %1, %2] : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
      %d = elem.sub %l, %s : f32
      loops.store %d, %o[0, %0, %1, %2] : tensor<1x128x32x32xf32, #aten.layout<device = "cuda:0">>
    }
  }
  %m = loops.nest (%0 : 2, %1 : 64, %2 : 32, %3 : 32) outs(%o : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %n[0, %0 * 64 + %1, %2, %3] : tensor<1x128x32x32xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1, %2, %3] : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
  }
  %a = loops.extern pure "aten.convolution.default"(%m, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>, tensor<64x64x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
  %b = loops.extern pure "aten.convolution.default"(%a, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>, tensor<64x64x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
  %r = loops.nest (%0 : 2, %1 : 64) outs(%o : tensor<2x64xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%2 : 32, %3 : 32) {
      %l = loops.load %b[%0, %1, %2, %3] : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
      loops.yield %l : f32
    } : f32
    loops.store %s, %o[%0, %1] : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %r : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
}
