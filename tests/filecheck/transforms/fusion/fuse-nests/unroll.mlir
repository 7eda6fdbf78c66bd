// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// Each point stores two elements side by side; who reads them one by one goes on from both.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4, %j : 3) outs(%o: tensor<4x3x2xf32>, %0: tensor<4x6xf32>) {
// CHECK-NEXT:     %u = loops.load %x[%i, %j]
// CHECK-NEXT:     %v = elem.exp %u
// CHECK-NEXT:     %w = elem.neg %u
// CHECK-NEXT:     loops.store %v, %o[%i, %j, 0]
// CHECK-NEXT:     loops.store %w, %o[%i, %j, 1]
// CHECK-NEXT:     %1 = elem.sqrt %v
// CHECK-NEXT:     loops.store %1, %0[%i, %j * 2]
// CHECK-NEXT:     %2 = elem.sqrt %w
// CHECK-NEXT:     loops.store %2, %0[%i, %j * 2 + 1]
// CHECK-NEXT:   }
func.func @main(%x : tensor<4x3xf32>) -> tensor<4x6xf32> {
  %a = loops.nest (%i : 4, %j : 3) outs(%o : tensor<4x3x2xf32>) {
    %u = loops.load %x[%i, %j] : tensor<4x3xf32>
    %v = elem.exp %u : f32
    %w = elem.neg %u : f32
    loops.store %v, %o[%i, %j, 0] : tensor<4x3x2xf32>
    loops.store %w, %o[%i, %j, 1] : tensor<4x3x2xf32>
  }
  %y = loops.nest (%i : 4, %d : 6) outs(%o : tensor<4x6xf32>) {
    %u = loops.load %a[%i, %d floordiv 2, %d mod 2] : tensor<4x3x2xf32>
    %v = elem.sqrt %u : f32
    loops.store %v, %o[%i, %d] : tensor<4x6xf32>
  }
  func.return %y : tensor<4x6xf32>
}

// -----

// The same in another order of the axes, with a symbolic size, and two reads of one element.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %z = loops.nest (%i : s0, %j : 3)
// CHECK:          loops.store %w, %o[%i, %j, 1]
// CHECK-NEXT:     %1 = elem.exp %v
// CHECK-NEXT:     %2 = elem.add %1, %v
// CHECK-NEXT:     loops.store %2, %0[%j * 2, %i]
// CHECK-NEXT:     %3 = elem.exp %w
// CHECK-NEXT:     %4 = elem.add %3, %w
// CHECK-NEXT:     loops.store %4, %0[%j * 2 + 1, %i]
// CHECK-NEXT:   }
func.func @main(%x : tensor<?x3xf32, #aten.layout<sizes = [s0, 3]>>) -> tensor<6x?xf32, #aten.layout<sizes = [6, s0]>> attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %a = loops.nest (%i : s0, %j : 3) outs(%o : tensor<?x3x2xf32, #aten.layout<sizes = [s0, 3, 2]>>) {
    %u = loops.load %x[%i, %j] : tensor<?x3xf32, #aten.layout<sizes = [s0, 3]>>
    %v = elem.exp %u : f32
    %w = elem.neg %v : f32
    loops.store %v, %o[%i, %j, 0] : tensor<?x3x2xf32, #aten.layout<sizes = [s0, 3, 2]>>
    loops.store %w, %o[%i, %j, 1] : tensor<?x3x2xf32, #aten.layout<sizes = [s0, 3, 2]>>
  }
  %y = loops.nest (%d : 6, %i : s0) outs(%o : tensor<6x?xf32, #aten.layout<sizes = [6, s0]>>) {
    %u = loops.load %a[%i, %d floordiv 2, %d mod 2] : tensor<?x3x2xf32, #aten.layout<sizes = [s0, 3, 2]>>
    %v = elem.exp %u : f32
    loops.store %v, %o[%d, %i] : tensor<6x?xf32, #aten.layout<sizes = [6, s0]>>
  }
  %z = loops.nest (%d : 6, %i : s0) outs(%o : tensor<6x?xf32, #aten.layout<sizes = [6, s0]>>) {
    %u = loops.load %y[%d, %i] : tensor<6x?xf32, #aten.layout<sizes = [6, s0]>>
    %w = loops.load %a[%i, %d floordiv 2, %d mod 2] : tensor<?x3x2xf32, #aten.layout<sizes = [s0, 3, 2]>>
    %v = elem.add %u, %w : f32
    loops.store %v, %o[%d, %i] : tensor<6x?xf32, #aten.layout<sizes = [6, s0]>>
  }
  func.return %z : tensor<6x?xf32, #aten.layout<sizes = [6, s0]>>
}

// -----

// Near misses: the consumer reads both elements at a point; it reads every other point's elements turned around.
// CHECK:      func.func @main
// CHECK:        %y = loops.nest (%i : 4, %d : 2)
// CHECK:        %z = loops.nest (%i : 4, %d : 2)
func.func @main(%x : tensor<4xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x2xf32>) {
    %u = loops.load %x[%i] : tensor<4xf32>
    %v = elem.erf %u : f32
    loops.store %u, %o[%i, 0] : tensor<4x2xf32>
    loops.store %v, %o[%i, 1] : tensor<4x2xf32>
  }
  %y = loops.nest (%i : 4, %d : 2) outs(%o : tensor<4x2xf32>) {
    %u = loops.load %a[3 - %i, %d] : tensor<4x2xf32>
    loops.store %u, %o[%i, %d] : tensor<4x2xf32>
  }
  %z = loops.nest (%i : 4, %d : 2) outs(%o : tensor<4x2xf32>) {
    %u = loops.load %a[3 - %i, %d] : tensor<4x2xf32>
    %v = loops.load %a[%i, 1] : tensor<4x2xf32>
    %w = elem.add %u, %v : f32
    loops.store %w, %o[%i, %d] : tensor<4x2xf32>
  }
  func.return %y, %z : tensor<4x2xf32>, tensor<4x2xf32>
}
