// RUN: cuesta-opt %s -p multiply-patches --split-input-file

// Channels last: a row of the product for every point of the images; channels lie next to each other in its columns.
// CHECK:      %[[R:.*]] = loops.view %x by (d0, d1) -> (d0 floordiv 12, d1, (d0 floordiv 4) mod 3, d0 mod 4) : tensor<2x7x3x4xf32, #aten.layout<strides = [84, 1, 28, 7], device = "cuda:0">> to tensor<24x7xf32, #aten.layout<device = "cuda:0">>
// CHECK-NEXT: %[[W:.*]] = loops.view %w by (d0, d1) -> (d0, d1 mod 5, d1 floordiv 10, (d1 floordiv 5) mod 2) : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">> to tensor<7x20xf32, #aten.layout<device = "cuda:0">>
// CHECK-NEXT: %[[P:.*]] = loops.extern pure "aten.mm.default"(%[[R]], %[[W]]) : (tensor<24x7xf32, #aten.layout<device = "cuda:0">>, tensor<7x20xf32, #aten.layout<device = "cuda:0">>) -> tensor<24x20xf32, #aten.layout<device = "cuda:0">>
// CHECK-NOT:  aten.convolution
// CHECK:        loops.load %[[P]][%n * 12 + (%i floordiv 2) * 4 + (%j floordiv 2), %c + (%i mod 2) * 10 + (%j mod 2) * 5]
func.func @main(%x : tensor<2x7x3x4xf32, #aten.layout<strides = [84, 1, 28, 7], device = "cuda:0">>, %w : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<strides = [240, 1, 40, 5], device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x7x3x4xf32, #aten.layout<strides = [84, 1, 28, 7], device = "cuda:0">>, tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<strides = [240, 1, 40, 5], device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 5, %i : 6, %j : 8) outs(%o : tensor<2x5x6x8xf32, #aten.layout<strides = [240, 1, 40, 5], device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x5x6x8xf32, #aten.layout<strides = [240, 1, 40, 5], device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x5x6x8xf32, #aten.layout<strides = [240, 1, 40, 5], device = "cuda:0">>
  }
  func.return %y : tensor<2x5x6x8xf32, #aten.layout<strides = [240, 1, 40, 5], device = "cuda:0">>
}

// -----

// Channels first: a product for each image, of one weight.
// CHECK:      %[[W:.*]] = loops.view %w by (d0, d1, d2) -> (d2, d1 floordiv 4, (d1 floordiv 2) mod 2, d1 mod 2) : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">> to tensor<2x20x7xf32, #aten.layout<strides = [0, 1, 20], device = "cuda:0">>
// CHECK-NEXT: %[[X:.*]] = loops.view %x by (d0, d1, d2) -> (d0, d1, d2 floordiv 4, d2 mod 4) : tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">> to tensor<2x7x12xf32, #aten.layout<device = "cuda:0">>
// CHECK-NEXT: %[[P:.*]] = loops.extern pure "aten.bmm.default"(%[[W]], %[[X]])
// CHECK:        loops.load %[[P]][%n, %c * 4 + (%i mod 2) * 2 + (%j mod 2), (%i floordiv 2) * 4 + (%j floordiv 2)]
func.func @main(%x : tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, %w : tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x7x3x4xf32, #aten.layout<device = "cuda:0">>, tensor<7x5x2x2xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 5, %i : 6, %j : 8) outs(%o : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i, %j] : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i, %j] : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x5x6x8xf32, #aten.layout<device = "cuda:0">>
}

// -----

// One axis.
// CHECK:      loops.extern pure "aten.bmm.default"
// CHECK-NOT:  aten.convolution
func.func @main(%x : tensor<2x7x4xf32, #aten.layout<device = "cuda:0">>, %w : tensor<7x5x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x12xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.extern pure "aten.convolution.default"(%x, %w, none, [3], [0], [1], true, [0], 1) : (tensor<2x7x4xf32, #aten.layout<device = "cuda:0">>, tensor<7x5x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x12xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%n : 2, %c : 5, %i : 12) outs(%o : tensor<2x5x12xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %t[%n, %c, %i] : tensor<2x5x12xf32, #aten.layout<device = "cuda:0">>
    %r = elem.neg %l : f32
    loops.store %r, %o[%n, %c, %i] : tensor<2x5x12xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x5x12xf32, #aten.layout<device = "cuda:0">>
}
