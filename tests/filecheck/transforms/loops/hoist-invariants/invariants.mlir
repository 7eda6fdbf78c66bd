// RUN: cuesta-opt %s --split-input-file -p hoist-invariants

// What the row shares is computed once a row: the load, what is computed from it, and the constant. Out of two loops at once.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4x2x8xf32>) {
// CHECK-NEXT:     %a = loops.load %w[%i]
// CHECK-NEXT:     %b = elem.exp %a
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %c = loops.load %x[%i, 0, %j]
// CHECK-NEXT:       %d = elem.mul %b, %c
// CHECK-NEXT:       loops.yield %d
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:     %f = loops.load %k[%i]
// CHECK-NEXT:     %g = loops.bound %f, 4 : i64
// CHECK-NEXT:     %l = loops.load %w[%g]
// CHECK-NEXT:     %one = elem.constant 1.0 : f32
// CHECK-NEXT:     loops.for (%n : 2) {
// CHECK-NEXT:       %h = loops.index [%n * 2] : i64
// CHECK-NEXT:       %m = elem.convert %h : i64 to f32
// CHECK-NEXT:       %q = elem.add %m, %one
// CHECK-NEXT:       loops.for (%j : 8) {
// CHECK-NEXT:         %c = loops.load %x[%i, %n, %j]
// CHECK-NEXT:         %d = elem.mul %c, %q
// CHECK-NEXT:         %e = elem.sub %d, %l
// CHECK-NEXT:         loops.store %e, %p[%i, %n, %j]
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4x2x8xf32>, %w : tensor<4xf32>, %k : tensor<4xi64>) -> (tensor<4xf32>, tensor<4x2x8xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4x2x8xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %w[%i] : tensor<4xf32>
      %b = elem.exp %a : f32
      %c = loops.load %x[%i, 0, %j] : tensor<4x2x8xf32>
      %d = elem.mul %b, %c : f32
      loops.yield %d : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
    loops.for (%n : 2) {
      loops.for (%j : 8) {
        %f = loops.load %k[%i] : tensor<4xi64>
        %g = loops.bound %f, 4 : i64
        %l = loops.load %w[%g] : tensor<4xf32>
        %h = loops.index [%n * 2] : i64
        %m = elem.convert %h : i64 to f32
        %one = elem.constant 1.0 : f32
        %q = elem.add %m, %one : f32
        %c = loops.load %x[%i, %n, %j] : tensor<4x2x8xf32>
        %d = elem.mul %c, %q : f32
        %e = elem.sub %d, %l : f32
        loops.store %e, %p[%i, %n, %j] : tensor<4x2x8xf32>
      }
    }
  }
  func.return %y, %z : tensor<4xf32>, tensor<4x2x8xf32>
}

// -----

// Near miss: the load of an out. The loop stores to it, and each point of the loop reads what came before it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4x8xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i, 0]
// CHECK-NEXT:     loops.store %a, %o[%i]
// CHECK-NEXT:     loops.for (%j : 8) {
// CHECK-NEXT:       %b = loops.load %o[%i]
// CHECK-NEXT:       %c = elem.neg %b
// CHECK-NEXT:       loops.store %c, %p[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4x8xf32>) {
    %a = loops.load %x[%i, 0] : tensor<4x8xf32>
    loops.store %a, %o[%i] : tensor<4xf32>
    loops.for (%j : 8) {
      %b = loops.load %o[%i] : tensor<4xf32>
      %c = elem.neg %b : f32
      loops.store %c, %p[%i, %j] : tensor<4x8xf32>
    }
  }
  func.return %y, %z : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// Near miss: a domain that is or may be empty. There, eager reads nothing and raises nothing; what cannot fail may move.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4xf32>) {
// CHECK-NEXT:     %h = loops.index [%i] : i64
// CHECK-NEXT:     %f = elem.convert %h : i64 to f32
// CHECK-NEXT:     %s = loops.reduce sum (%j : s0) {
// CHECK-NEXT:       %a = loops.load %k[0]
// CHECK-NEXT:       %b = loops.bound %a, s0 : i64
// CHECK-NEXT:       %c = loops.load %x[%b, %i] : tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>
// CHECK-NEXT:       %g = elem.mul %c, %f
// CHECK-NEXT:       loops.yield %g
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:     %t = loops.reduce sum (%j : 0) {
// CHECK-NEXT:       %c = loops.load %e[0]
// CHECK-NEXT:       loops.yield %c
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %t, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>, %k : tensor<1xi64>, %e : tensor<0xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {sym.symbols = #sym.symbols<s0 in [0, 64]>} {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>) {
    %s = loops.reduce sum (%j : s0) {
      %a = loops.load %k[0] : tensor<1xi64>
      %b = loops.bound %a, s0 : i64
      %c = loops.load %x[%b, %i] : tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>
      %h = loops.index [%i] : i64
      %f = elem.convert %h : i64 to f32
      %g = elem.mul %c, %f : f32
      loops.yield %g : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
    %t = loops.reduce sum (%j : 0) {
      %c = loops.load %e[0] : tensor<0xf32>
      loops.yield %c : f32
    } : f32
    loops.store %t, %p[%i] : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// A domain whose size is known to be at least one by the range of its symbol is not empty.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %a = loops.load %w[%i]
// CHECK-NEXT:     %s = loops.reduce sum (%j : s0) {
// CHECK-NEXT:       %c = loops.load %x[%j, %i] : tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>
// CHECK-NEXT:       %g = elem.mul %c, %a
// CHECK-NEXT:       loops.yield %g
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>, %w : tensor<4xf32>) -> tensor<4xf32> attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : s0) {
      %a = loops.load %w[%i] : tensor<4xf32>
      %c = loops.load %x[%j, %i] : tensor<?x4xf32, #aten.layout<sizes = [s0, 4]>>
      %g = elem.mul %c, %a : f32
      loops.yield %g : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
