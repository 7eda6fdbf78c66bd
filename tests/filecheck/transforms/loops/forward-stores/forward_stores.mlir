// RUN: cuesta-opt %s --split-input-file -p forward-stores

// One element of each row is read: it alone is computed, at the index of the read.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%p: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce maximum (%j : 8) {
// CHECK:          } : f32
// CHECK-NEXT:     %n = loops.load %k[%i]
// CHECK-NEXT:     %m = loops.bound %n, 8 : i64
// CHECK-NEXT:     %0 = loops.load %x[%i, %m]
// CHECK-NEXT:     %1 = elem.sub %0, %s : f32
// CHECK-NEXT:     %u = elem.exp %1 : f32
// CHECK-NEXT:     loops.store %u, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
func.func @main(%x : tensor<4x8xf32>, %k : tensor<4xi64>) -> tensor<4xf32> {
  %a, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      %e = elem.exp %w : f32
      loops.store %e, %o[%i, %j] : tensor<4x8xf32>
    }
    %n = loops.load %k[%i] : tensor<4xi64>
    %m = loops.bound %n, 8 : i64
    %u = loops.load %o[%i, %m] : tensor<4x8xf32>
    loops.store %u, %p[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// As often as it is stored, but as cheap as the read: nothing is kept. The axes are walked in another order.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%c : 3) outs(%p: tensor<3xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%k : 4, %n : 2) {
// CHECK-NEXT:       %0 = loops.load %x[%n, %c, -%k + 3]
// CHECK-NEXT:       %v = elem.neg %0 : f32
// CHECK-NEXT:       loops.yield %v : f32
func.func @main(%x : tensor<2x3x4xf32>) -> tensor<3xf32> {
  %a, %y = loops.nest (%c : 3) outs(%o : tensor<2x3x4xf32>, %p : tensor<3xf32>) {
    loops.for (%n : 2, %j : 4) {
      %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
      %w = elem.neg %v : f32
      loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
    }
    %s = loops.reduce sum (%k : 4, %n : 2) {
      %v = loops.load %o[%n, %c, 3 - %k] : tensor<2x3x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %p[%c] : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}

// -----

// Near miss: somebody else reads the row as well.
// CHECK:      func.func @main
// CHECK:        %u = loops.load %o[%i, 3]
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %a, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4xf32>) {
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %e = elem.exp %v : f32
      loops.store %e, %o[%i, %j] : tensor<4x8xf32>
    }
    %u = loops.load %o[%i, 3] : tensor<4x8xf32>
    loops.store %u, %p[%i] : tensor<4xf32>
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// Near miss: read as often as stored, and dear.
// CHECK:      func.func @main
// CHECK:        %v = loops.load %o[%i, %j]
func.func @main(%x : tensor<4x8xf32>) -> tensor<4xf32> {
  %a, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4xf32>) {
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %e = elem.exp %v : f32
      loops.store %e, %o[%i, %j] : tensor<4x8xf32>
    }
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %o[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %p[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// Near misses: a masked read; a read in the stage itself, of what the same point stored.
// CHECK:      func.func @main
// CHECK:        %u = loops.load %o[%i, 3] if %b else %zero
func.func @main(%x : tensor<4x8xf32>, %c : tensor<4xi1>) -> tensor<4xf32> {
  %a, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4xf32>) {
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %e = elem.exp %v : f32
      loops.store %e, %o[%i, %j] : tensor<4x8xf32>
    }
    %b = loops.load %c[%i] : tensor<4xi1>
    %zero = elem.constant 0.0 : f32
    %u = loops.load %o[%i, 3] if %b else %zero : tensor<4x8xf32>
    loops.store %u, %p[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// CHECK:      func.func @main
// CHECK:        %u = loops.load %o[%i, %j]
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4x8xf32>) {
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.store %v, %o[%i, %j] : tensor<4x8xf32>
      %u = loops.load %o[%i, %j] : tensor<4x8xf32>
      loops.store %u, %p[%i, %j] : tensor<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}

// -----

// Near miss: the stage raises IndexError for any element, read or not.
// CHECK:      func.func @main
// CHECK:        %u = loops.load %o[%i, 3]
func.func @main(%x : tensor<4x8xf32>, %k : tensor<8xi64>) -> tensor<4xf32> {
  %a, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4xf32>) {
    loops.for (%j : 8) {
      %n = loops.load %k[%j] : tensor<8xi64>
      %m = loops.bound %n, 8 : i64
      %v = loops.load %x[%i, %m] : tensor<4x8xf32>
      loops.store %v, %o[%i, %j] : tensor<4x8xf32>
    }
    %u = loops.load %o[%i, 3] : tensor<4x8xf32>
    loops.store %u, %p[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// Edge: a symbolic row.
// CHECK:      func.func @main
// CHECK:        %y = loops.nest (%i : s0) outs(%p: tensor<?xf32
// CHECK-NEXT:     %0 = loops.load %x[%i, s1 - 1]
// CHECK-NEXT:     %u = elem.exp %0 : f32
// CHECK-NEXT:     loops.store %u, %p[%i]
func.func @main(%x : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>) -> tensor<?xf32, #aten.layout<sizes = [s0]>> attributes {sym.symbols = #sym.symbols<s0 in [2, inf], s1 in [2, inf]>} {
  %a, %y = loops.nest (%i : s0) outs(%o : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>, %p : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    loops.for (%j : s1) {
      %v = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
      %e = elem.exp %v : f32
      loops.store %e, %o[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
    }
    %u = loops.load %o[%i, s1 - 1] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
    loops.store %u, %p[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  func.return %y : tensor<?xf32, #aten.layout<sizes = [s0]>>
}

// -----

// On a GPU what is read as often as it is stored is computed again, also where a reduction stores it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%p: {{.*}}) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       %w = elem.exp %v : f32
// CHECK-NEXT:       loops.yield %w : f32
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.for (%k : 8) {
// CHECK-NEXT:       %0 = loops.load %x[%i, %k]
// CHECK-NEXT:       %v = elem.exp %0 : f32
// CHECK-NEXT:       %w = elem.div %v, %s : f32
// CHECK-NEXT:       loops.store %w, %p[%i, %k]
func.func @main(%x : tensor<4x8xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x8xf32, #aten.layout<device = "cuda:0">> {
  %t, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32, #aten.layout<device = "cuda:0">>, %p : tensor<4x8xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
      %w = elem.exp %v : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
      loops.yield %w : f32
    } : f32
    loops.for (%k : 8) {
      %v = loops.load %o[%i, %k] : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
      %w = elem.div %v, %s : f32
      loops.store %w, %p[%i, %k] : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
    }
  }
  func.return %y : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: on the CPU it is kept.
// CHECK:      loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %p: tensor<4x8xf32>) {
// CHECK:        loops.load %o[%i, %k]
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %t, %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4x8xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.exp %v : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
      loops.yield %w : f32
    } : f32
    loops.for (%k : 8) {
      %v = loops.load %o[%i, %k] : tensor<4x8xf32>
      %w = elem.div %v, %s : f32
      loops.store %w, %p[%i, %k] : tensor<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}
