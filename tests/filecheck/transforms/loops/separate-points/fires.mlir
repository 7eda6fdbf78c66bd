// RUN: cuesta-opt %s -p "separate-points{target=cuda}" --split-input-file

// What is reduced is stored, beside what is stored of it already; the points go in the order of what they store; what
// no reduction is needed for is computed there.
// CHECK:      %m, %0 = loops.nest (%i : 6) outs(%1: tensor<6xf32>, %2: tensor<6xf32>) {
// CHECK-NEXT:   %3 = loops.reduce sum (%4 : 4, %5 : 5) {
// CHECK:        } : f32
// CHECK-NEXT:   loops.store %3, %1[%i] : tensor<6xf32>
// CHECK-NEXT:   loops.store %3, %2[%i] : tensor<6xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %n = loops.nest (%z : 1, %i : 6, %j : 4, %k : 5) outs(%1: tensor<1x6x4x5xf32>) {
// CHECK-NEXT:   %2 = loops.load %0[%i] : tensor<6xf32>
// CHECK-NEXT:   %3 = loops.load %b[%i] : tensor<6xf32>
// CHECK-NEXT:   %4 = elem.neg %3 : f32
// CHECK-NEXT:   %5 = loops.load %c[%i floordiv 3, %i mod 3, %j, %k]
// CHECK-NEXT:   %6 = elem.sub %5, %2 : f32
// CHECK-NEXT:   %7 = elem.add %6, %4 : f32
// CHECK-NEXT:   loops.store %7, %1[%z, %i, %j, %k] : tensor<1x6x4x5xf32>
func.func @main(%x : tensor<2x3x4x5xf32>, %w : tensor<3x3x1x1xf32>, %b : tensor<6xf32>) -> (tensor<1x6x4x5xf32>, tensor<6xf32>) {
  %c = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x3x4x5xf32>, tensor<3x3x1x1xf32>) -> tensor<2x3x4x5xf32>
  %n, %m = loops.nest (%i : 6) outs(%o : tensor<1x6x4x5xf32>, %p : tensor<6xf32>) {
    %s = loops.reduce sum (%j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      loops.yield %a : f32
    } : f32
    %v = loops.load %b[%i] : tensor<6xf32>
    %u = elem.neg %v : f32
    loops.store %s, %p[%i] : tensor<6xf32>
    loops.for (%z : 1, %j : 4, %k : 5) {
      %a = loops.load %c[%i floordiv 3, %i mod 3, %j, %k] : tensor<2x3x4x5xf32>
      %d = elem.sub %a, %s : f32
      %e = elem.add %d, %u : f32
      loops.store %e, %o[%z, %i, %j, %k] : tensor<1x6x4x5xf32>
    }
  }
  func.return %n, %m : tensor<1x6x4x5xf32>, tensor<6xf32>
}

// -----

// Groups of channels, whose points are stored as one axis: the points go along that, as whoever reads them does.
// CHECK:      %n = loops.nest (%g : 2, %i : 6, %j : 4, %k : 5) outs(%1: tensor<2x6x4x5xf32>) {
// CHECK-NEXT:   loops.load %0[%g, %i floordiv 2] : tensor<2x3xf32>
// CHECK-NEXT:   loops.load %c[%g, %i, %j, %k] : tensor<2x6x4x5xf32>
// CHECK-NEXT:   elem.sub
// CHECK-NEXT:   loops.store %{{.*}}, %1[%g, %i, %j, %k] : tensor<2x6x4x5xf32>
func.func @main(%x : tensor<2x3x4x5xf32>, %w : tensor<6x3x1x1xf32>) -> tensor<2x6x4x5xf32> {
  %c = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x3x4x5xf32>, tensor<6x3x1x1xf32>) -> tensor<2x6x4x5xf32>
  %n = loops.nest (%g : 2, %i : 3) outs(%o : tensor<2x6x4x5xf32>) {
    %s = loops.reduce sum (%h : 2, %j : 4, %k : 5) {
      %a = loops.load %c[%g, %i * 2 + %h, %j, %k] : tensor<2x6x4x5xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%h : 2, %j : 4, %k : 5) {
      %a = loops.load %c[%g, %i * 2 + %h, %j, %k] : tensor<2x6x4x5xf32>
      %d = elem.sub %a, %s : f32
      loops.store %d, %o[%g, %i * 2 + %h, %j, %k] : tensor<2x6x4x5xf32>
    }
  }
  func.return %n : tensor<2x6x4x5xf32>
}
