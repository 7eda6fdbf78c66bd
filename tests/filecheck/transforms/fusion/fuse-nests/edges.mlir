// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// Rank 0: one point.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %b, %y = loops.nest () outs(%o: tensor<f32>, %0: tensor<f32>, %1: tensor<8xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[]
// CHECK-NEXT:     %u = elem.exp %s
// CHECK-NEXT:     loops.store %u, %0[]
// CHECK-NEXT:     loops.for (%2 : 8) {
// CHECK-NEXT:       %3 = loops.load %x[%2]
// CHECK-NEXT:       %4 = elem.sub %3, %u
// CHECK-NEXT:       loops.store %4, %1[%2]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<8xf32>) -> (tensor<f32>, tensor<8xf32>) {
  %a = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%j] : tensor<8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  %b = loops.nest () outs(%o : tensor<f32>) {
    %v = loops.load %a[] : tensor<f32>
    %w = elem.exp %v : f32
    loops.store %w, %o[] : tensor<f32>
  }
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %b[] : tensor<f32>
    %v = loops.load %x[%i] : tensor<8xf32>
    %w = elem.sub %v, %u : f32
    loops.store %w, %o[%i] : tensor<8xf32>
  }
  func.return %a, %y : tensor<f32>, tensor<8xf32>
}

// -----

// No elements, and reductions over none.
// CHECK:      func.func @main
// CHECK-NEXT:   %b, %a, %y = loops.nest (%i : 3) outs(%o: tensor<3xf32>, %0: tensor<3x0xf32>, %1: tensor<3x0xf32>) {
// CHECK-NEXT:     %s = loops.reduce prod (%j : 0) {
// CHECK-NEXT:       %2 = loops.load %x[%i, %j]
// CHECK-NEXT:       %v = elem.exp %2
// CHECK-NEXT:       loops.store %v, %0[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:     loops.for (%2 : 0) {
// CHECK-NEXT:       %3 = loops.load %0[%i, %2]
// CHECK-NEXT:       %4 = elem.sub %3, %s
// CHECK-NEXT:       loops.store %4, %1[%i, %2]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %b, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<3x0xf32>) -> (tensor<3xf32>, tensor<3x0xf32>) {
  %a = loops.nest (%i : 3, %j : 0) outs(%o : tensor<3x0xf32>) {
    %v = loops.load %x[%i, %j] : tensor<3x0xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<3x0xf32>
  }
  %b = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {
    %s = loops.reduce prod (%j : 0) {
      %v = loops.load %a[%i, %j] : tensor<3x0xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<3xf32>
  }
  %y = loops.nest (%i : 3, %j : 0) outs(%o : tensor<3x0xf32>) {
    %u = loops.load %b[%i] : tensor<3xf32>
    %v = loops.load %a[%i, %j] : tensor<3x0xf32>
    %w = elem.sub %v, %u : f32
    loops.store %w, %o[%i, %j] : tensor<3x0xf32>
  }
  func.return %b, %y : tensor<3xf32>, tensor<3x0xf32>
}

// -----

// Symbols: softmax's shape, with rows of s1. The third nest does not join: s1 and s0 are equal only by chance.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : s0) outs(%o: tensor<?xf32, #aten.layout<sizes = [s0]>>, %0: tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : s1) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
// CHECK-NEXT:       %w = elem.exp %v
// CHECK-NEXT:       loops.yield %w
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:     loops.for (%1 : s1) {
// CHECK-NEXT:       %2 = loops.load %x[%i, %1] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
// CHECK-NEXT:       %3 = elem.div %2, %s
// CHECK-NEXT:       loops.store %3, %0[%i, %1] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   %z = loops.nest (%j : s1) outs(%o: tensor<?xf32, #aten.layout<sizes = [s1]>>) {
// CHECK-NEXT:     %u = loops.load %a[0] : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:     %v = loops.load %y[1, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
// CHECK-NEXT:     %w = elem.div %v, %u
// CHECK-NEXT:     loops.store %w, %o[%j] : tensor<?xf32, #aten.layout<sizes = [s1]>>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>, tensor<?xf32, #aten.layout<sizes = [s1]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>) -> (tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>, tensor<?xf32, #aten.layout<sizes = [s1]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, 64], s1 in [2, 64]>} {
  %a = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %s = loops.reduce sum (%j : s1) {
      %v = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
      %w = elem.exp %v : f32
      loops.yield %w : f32
    } : f32
    loops.store %s, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  %y = loops.nest (%i : s0, %j : s1) outs(%o : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>) {
    %u = loops.load %a[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    %v = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
    %w = elem.div %v, %u : f32
    loops.store %w, %o[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
  }
  %z = loops.nest (%j : s1) outs(%o : tensor<?xf32, #aten.layout<sizes = [s1]>>) {
    %u = loops.load %a[0] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    %v = loops.load %y[1, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
    %w = elem.div %v, %u : f32
    loops.store %w, %o[%j] : tensor<?xf32, #aten.layout<sizes = [s1]>>
  }
  func.return %y, %z : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>, tensor<?xf32, #aten.layout<sizes = [s1]>>
}

// -----

// A nest that has nothing to store, its out being empty, has no value to compute again either.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest () outs(%o: tensor<0xf32>, %0: tensor<0xf32>) {
// CHECK-NEXT:     loops.for (%1 : 0) {
// CHECK-NEXT:       %2 = loops.load %o[%1]
// CHECK-NEXT:       loops.store %2, %0[%1]
func.func @main() -> tensor<0xf32> {
  %y = loops.nest () outs(%o : tensor<0xf32>) {
  }
  %z = loops.nest () outs(%p : tensor<0xf32>) {
    loops.for (%j : 0) {
      %v = loops.load %y[%j] : tensor<0xf32>
      loops.store %v, %p[%j] : tensor<0xf32>
    }
  }
  func.return %z : tensor<0xf32>
}

// -----

// A nest of one point takes no work from one whose size only the call knows: it may be large.
// CHECK:      %a = loops.nest () outs(
// CHECK:      %b = loops.nest (%i : s0) outs(
func.func @main(%x : tensor<f32>, %y : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> (tensor<f32>, tensor<?xf32, #aten.layout<sizes = [s0]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {
  %a = loops.nest () outs(%o : tensor<f32>) {
    %l = loops.load %x[] : tensor<f32>
    %e = elem.exp %l : f32
    loops.store %e, %o[] : tensor<f32>
  }
  %b = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %l = loops.load %a[] : tensor<f32>
    %k = loops.load %y[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    %m = elem.mul %l, %k : f32
    loops.store %m, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  func.return %a, %b : tensor<f32>, tensor<?xf32, #aten.layout<sizes = [s0]>>
}

// -----

// Rows without an element are as many as one such row, and are not kept by the nest of that one: their other reader walks all of them.
// CHECK:      func.func @main
// CHECK-NOT:  loops.nest (%i : 1, %j : 0) outs(%{{.*}}: tensor<1x0xf32>, %
func.func @main(%x : tensor<17x0xf32>) -> (tensor<1x0xf32>, tensor<17x0xf32>) {
  %a = loops.nest (%i : 17, %j : 0) outs(%o : tensor<17x0xf32>) {
    %l = loops.load %x[%i, %j] : tensor<17x0xf32>
    %e = elem.exp %l : f32
    loops.store %e, %o[%i, %j] : tensor<17x0xf32>
  }
  %b = loops.nest (%i : 1, %j : 0) outs(%o : tensor<1x0xf32>) {
    %l = loops.load %a[0, %j] : tensor<17x0xf32>
    %e = elem.tanh %l : f32
    loops.store %e, %o[%i, %j] : tensor<1x0xf32>
  }
  %c = loops.nest (%i : 17, %j : 0) outs(%o : tensor<17x0xf32>) {
    %l = loops.load %a[%i, %j] : tensor<17x0xf32>
    %e = elem.erf %l : f32
    loops.store %e, %o[%i, %j] : tensor<17x0xf32>
  }
  func.return %b, %c : tensor<1x0xf32>, tensor<17x0xf32>
}
