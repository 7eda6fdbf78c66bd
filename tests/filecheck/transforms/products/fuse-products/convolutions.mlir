// RUN: cuesta-opt %s -p "fuse-products{tf32-convolutions=true}" --split-input-file

// Groups are a batch of products.
// CHECK:      loops.nest (%[[G:.*]] : 2, %row : 50, %channel : 6)
// CHECK:        loops.reduce sum (%k : 36)
// CHECK:        loops.store %{{.*}}[%row floordiv 25, %[[G]] * 6 + %channel,
func.func @main(%x : tensor<2x8x5x5xf32>, %w : tensor<12x4x3x3xf32>) -> tensor<2x12x5x5xf32> {
  %y = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 2) : (tensor<2x8x5x5xf32>, tensor<12x4x3x3xf32>) -> tensor<2x12x5x5xf32>
  func.return %y : tensor<2x12x5x5xf32>
}

// -----
// Transposed, in steps of 2: a product for even and one for odd places, of which there is one fewer; each has two elements
// of a window of three, of which the second of the even ones is none.
// CHECK:      loops.nest (%[[R:.*]] : 2, %row : 8, %channel : 6)
// CHECK:        loops.reduce sum (%k : 8)
// CHECK:        loops.load %x[{{.*}}] if
// CHECK:        loops.load %w[{{.*}}] if
// CHECK:        loops.store %{{.*}}[%row floordiv 4, %channel, %[[R]] + (%row mod 4) * 2] if
func.func @main(%x : tensor<2x4x4xf32>, %w : tensor<4x6x3xf32>) -> tensor<2x6x7xf32> {
  %y = loops.extern pure "aten.convolution.default"(%x, %w, none, [2], [1], [1], true, [0], 1) : (tensor<2x4x4xf32>, tensor<4x6x3xf32>) -> tensor<2x6x7xf32>
  func.return %y : tensor<2x6x7xf32>
}

// -----
// Two gradients are two products, and a nest takes the second one in; the third stays a call.
// CHECK:      %dx = loops.nest (%row : 8, %channel : 4)
// CHECK-NEXT:   loops.reduce sum (%k : 18)
// CHECK:      loops.extern pure "aten.convolution_backward.default"(%dy, %x, %w, [6], [1], [1], [1], false, [0], 1, [false, false, true])
// CHECK:      loops.nest (%row : 6, %channel : 12)
// CHECK:        loops.reduce sum (%k : 8)
// CHECK:        elem.neg
// CHECK-NOT:  convolution_backward
// CHECK:      func.return
func.func @main(%dy : tensor<2x6x4xf32>, %x : tensor<2x4x4xf32>, %w : tensor<6x4x3xf32>) -> (tensor<2x4x4xf32>, tensor<6x4x3xf32>, tensor<6xf32>) {
  %dx, %dw, %db = loops.extern pure "aten.convolution_backward.default"(%dy, %x, %w, [6], [1], [1], [1], false, [0], 1, [true, true, true]) : (tensor<2x6x4xf32>, tensor<2x4x4xf32>, tensor<6x4x3xf32>) -> (tensor<2x4x4xf32>, tensor<6x4x3xf32>, tensor<6xf32>)
  %z = loops.nest (%i : 6, %j : 4, %k : 3) outs(%o : tensor<6x4x3xf32>) {
    %0 = loops.load %dw[%i, %j, %k] : tensor<6x4x3xf32>
    %1 = elem.neg %0 : f32
    loops.store %1, %o[%i, %j, %k] : tensor<6x4x3xf32>
  }
  func.return %dx, %z, %db : tensor<2x4x4xf32>, tensor<6x4x3xf32>, tensor<6xf32>
}
