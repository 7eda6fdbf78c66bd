// RUN: cuesta-opt %s -p "separate-points"

// On a processor rows are lanes' own.
// CHECK:     loops.nest (%i : 6) outs
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<2x3x4x5xf32>, %w : tensor<3x3x1x1xf32>) -> tensor<1x6x4x5xf32> {
  %c = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x3x4x5xf32>, tensor<3x3x1x1xf32>) -> tensor<2x3x4x5xf32>
  %y = loops.nest (%i : 6) outs(%o : tensor<1x6x4x5xf32>) {
    %s = loops.reduce sum (%j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      %d = elem.sub %a, %s : f32
      loops.store %d, %o[0, %i, %j, %k] : tensor<1x6x4x5xf32>
    }
  }
  func.return %y : tensor<1x6x4x5xf32>
}
