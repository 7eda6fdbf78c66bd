// RUN: cuesta-opt %s --split-input-file -p dce

// Dead loads, a dead reduction, a dead result of two, and a loop in which nothing is left.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%o: tensor<4xi64>) {
// CHECK-NEXT:     %m, %at = loops.reduce argmax (%j : 8) {
// CHECK-NEXT:       %c = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %c
// CHECK-NEXT:     } : f32, i64
// CHECK-NEXT:     loops.store %at, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> tensor<4xi64> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi64>) {
    %a = loops.load %x[%i, 0] : tensor<4x8xf32>
    %b = elem.exp %a : f32
    %s = loops.reduce sum (%j : 8) {
      %c = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %c : f32
    } : f32
    %m, %at = loops.reduce argmax (%j : 8) {
      %c = loops.load %x[%i, %j] : tensor<4x8xf32>
      %d = elem.neg %c : f32
      loops.yield %c : f32
    } : f32, i64
    loops.for (%j : 8) {
      %c = loops.load %x[%i, %j] : tensor<4x8xf32>
      %d = elem.add %c, %s : f32
    }
    loops.store %at, %o[%i] : tensor<4xi64>
  }
  func.return %y : tensor<4xi64>
}

// -----

// An out that nobody reads is not written, and what was computed for it is not computed. The others keep their order.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %c = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %q: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     %u = elem.neg %v
// CHECK-NEXT:     loops.store %v, %o[%i]
// CHECK-NEXT:     loops.store %u, %q[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %c
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a, %b, %c = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>, %q : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    %w = elem.exp %v : f32
    %u = elem.neg %v : f32
    loops.store %v, %o[%i] : tensor<4xf32>
    loops.store %w, %p[%i] : tensor<4xf32>
    loops.store %u, %q[%i] : tensor<4xf32>
  }
  func.return %a, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

// Near miss: an out that the nest itself reads back stays. In the second nest its last reader dies, and both go.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %b = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     loops.store %v, %o[%i]
// CHECK-NEXT:     %w = loops.load %o[%i]
// CHECK-NEXT:     %u = elem.neg %w
// CHECK-NEXT:     loops.store %u, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %e = loops.nest (%i : 4) outs(%q: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     %t = elem.exp %v
// CHECK-NEXT:     loops.store %t, %q[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %b, %e
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a, %b = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
    %w = loops.load %o[%i] : tensor<4xf32>
    %u = elem.neg %w : f32
    loops.store %u, %p[%i] : tensor<4xf32>
  }
  %c, %d, %e = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>, %q : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
    %w = loops.load %o[%i] : tensor<4xf32>
    loops.store %w, %p[%i] : tensor<4xf32>
    %t = elem.exp %v : f32
    loops.store %t, %q[%i] : tensor<4xf32>
  }
  func.return %b, %e : tensor<4xf32>, tensor<4xf32>
}

// -----

// Near miss: a reduction whose result nobody reads, but which stores, or may raise IndexError. Rank 0.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest () outs(%o: tensor<f32>, %p: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 4) {
// CHECK-NEXT:       %c = loops.load %x[%j]
// CHECK-NEXT:       loops.store %c, %p[%j]
// CHECK-NEXT:       loops.yield %c
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     %t = loops.reduce sum (%j : 4) {
// CHECK-NEXT:       %c = loops.load %k[%j]
// CHECK-NEXT:       %d = loops.bound %c, 4 : i64
// CHECK-NEXT:       %e = loops.load %x[%d]
// CHECK-NEXT:       loops.yield %e
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     %v = loops.load %x[0]
// CHECK-NEXT:     loops.store %v, %o[]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>, %k : tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>) {
  %y, %z = loops.nest () outs(%o : tensor<f32>, %p : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 4) {
      %c = loops.load %x[%j] : tensor<4xf32>
      loops.store %c, %p[%j] : tensor<4xf32>
      loops.yield %c : f32
    } : f32
    %t = loops.reduce sum (%j : 4) {
      %c = loops.load %k[%j] : tensor<4xi64>
      %d = loops.bound %c, 4 : i64
      %e = loops.load %x[%d] : tensor<4xf32>
      loops.yield %e : f32
    } : f32
    %v = loops.load %x[0] : tensor<4xf32>
    loops.store %v, %o[] : tensor<f32>
  }
  func.return %y, %z : tensor<f32>, tensor<4xf32>
}

// -----
// Whose position nobody reads is a maximum, or a minimum. (Near miss: the first program above reads the position.)
// CHECK:      %m = loops.reduce maximum (%j : 8) {
// CHECK:      } : f32
// CHECK:      %n = loops.reduce minimum (%j : 8) {
// CHECK:      } : f32
// CHECK-NOT:  arg
func.func @main(%x : tensor<4x8xf32>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %m, %p = loops.reduce argmax (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %a : f32
    } : f32, i64
    %n, %q = loops.reduce argmin (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %a : f32
    } : f32, i64
    %d = elem.sub %m, %n : f32
    loops.store %d, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
