// RUN: cuesta-opt %s -p "separate-points{target=cuda}" --split-input-file

// Near misses: nothing is reduced; no image; a loop in the loop; what is stored is read; a check, which may fail, of a
// point or of a row.
// CHECK-COUNT-7: loops.nest (%i : 6) outs
// CHECK-NOT:     loops.nest
func.func @main(%x : tensor<2x3x4x5xf32>, %w : tensor<3x3x1x1xf32>, %t : tensor<6x20xf32>, %q : tensor<4x5xi64>) -> (tensor<1x6x4x5xf32>, tensor<6x20xf32>, tensor<1x6x4x5xf32>, tensor<1x6x4x5xf32>, tensor<1x6x4x5xf32>, tensor<1x6x4x5xf32>) {
  %c = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x3x4x5xf32>, tensor<3x3x1x1xf32>) -> tensor<2x3x4x5xf32>
  %y1 = loops.nest (%i : 6) outs(%o : tensor<1x6x4x5xf32>) {
    %s = loops.load %t[%i, 0] : tensor<6x20xf32>
    loops.for (%j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      %d = elem.sub %a, %s : f32
      loops.store %d, %o[0, %i, %j, %k] : tensor<1x6x4x5xf32>
    }
  }
  %y2 = loops.nest (%i : 6) outs(%o : tensor<6x20xf32>) {
    %s = loops.reduce sum (%j : 20) {
      %a = loops.load %t[%i, %j] : tensor<6x20xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 20) {
      loops.store %s, %o[%i, %j] : tensor<6x20xf32>
    }
  }
  %y3 = loops.nest (%i : 6) outs(%o : tensor<1x6x4x5xf32>) {
    %s = loops.reduce sum (%j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 4) {
      loops.for (%k : 5) {
        loops.store %s, %o[0, %i, %j, %k] : tensor<1x6x4x5xf32>
      }
    }
  }
  %y4 = loops.nest (%i : 6) outs(%o : tensor<1x6x4x5xf32>) {
    %s = loops.reduce sum (%j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[0, %i, 0, 0] : tensor<1x6x4x5xf32>
    loops.for (%j : 4, %k : 5) {
      %a = loops.load %o[0, %i, 0, 0] : tensor<1x6x4x5xf32>
      loops.store %a, %o[0, %i, %j, %k] : tensor<1x6x4x5xf32>
    }
  }
  %y5 = loops.nest (%i : 6) outs(%o : tensor<1x6x4x5xf32>) {
    %s = loops.reduce sum (%j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 4, %k : 5) {
      %l = loops.load %q[%j, %k] : tensor<4x5xi64>
      %g = loops.bound %l, 20 : i64
      %a = loops.load %t[%i, %g] : tensor<6x20xf32>
      %d = elem.sub %a, %s : f32
      loops.store %d, %o[0, %i, %j, %k] : tensor<1x6x4x5xf32>
    }
  }
  %y6 = loops.nest (%i : 6) outs(%o : tensor<1x6x4x5xf32>) {
    %s = loops.reduce sum (%j : 20) {
      %a = loops.load %t[%i, %j] : tensor<6x20xf32>
      loops.yield %a : f32
    } : f32
    %l = loops.load %q[%i mod 4, 0] : tensor<4x5xi64>
    %g = loops.bound %l, 20 : i64
    loops.for (%j : 4, %k : 5) {
      %a = loops.load %t[%i, %g] : tensor<6x20xf32>
      %d = elem.sub %a, %s : f32
      loops.store %d, %o[0, %i, %j, %k] : tensor<1x6x4x5xf32>
    }
  }
  func.return %y1, %y2, %y3, %y4, %y5, %y6 : tensor<1x6x4x5xf32>, tensor<6x20xf32>, tensor<1x6x4x5xf32>, tensor<1x6x4x5xf32>, tensor<1x6x4x5xf32>, tensor<1x6x4x5xf32>
}

// -----

// No convolution: no layout is chosen.
func.func @main(%c : tensor<2x3x4x5xf32>) -> tensor<1x6x4x5xf32> {
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
