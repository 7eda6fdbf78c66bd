// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// What costs no more than to read it is computed again wherever it is read, at the index read; then nobody needs it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 8, %j : 4) outs(%o: tensor<8x4xf32>) {
// CHECK-NEXT:     %0 = loops.load %x[%j, %i]
// CHECK-NEXT:     %v = elem.neg %0
// CHECK-NEXT:     loops.store %v, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %z = loops.nest (%i : 32) outs(%o: tensor<32xf32>) {
// CHECK-NEXT:     %0 = loops.load %x[%i floordiv 8, %i mod 8]
// CHECK-NEXT:     %v = elem.neg %0
// CHECK-NEXT:     %1 = loops.load %x[-(%i floordiv 8) + 3, %i mod 8]
// CHECK-NEXT:     %u = elem.neg %1
// CHECK-NEXT:     %w = elem.add %v, %u
// CHECK-NEXT:     loops.store %w, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<32xf32>) {
  %a = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %y = loops.nest (%i : 8, %j : 4) outs(%o : tensor<8x4xf32>) {
    %v = loops.load %a[%j, %i] : tensor<4x8xf32>
    loops.store %v, %o[%i, %j] : tensor<8x4xf32>
  }
  %z = loops.nest (%i : 32) outs(%o : tensor<32xf32>) {
    %v = loops.load %a[%i floordiv 8, %i mod 8] : tensor<4x8xf32>
    %u = loops.load %a[3 - %i floordiv 8, %i mod 8] : tensor<4x8xf32>
    %w = elem.add %v, %u : f32
    loops.store %w, %o[%i] : tensor<32xf32>
  }
  func.return %y, %z : tensor<8x4xf32>, tensor<32xf32>
}

// -----

// What is dear is inlined where it is read once, by one, no more often than it was computed: here into a reduction.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       %w = elem.exp %v
// CHECK-NEXT:       loops.yield %w
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> tensor<4xf32> {
  %a = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %a[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// Where it is read it does not depend on the inner domain: it is computed before that.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     %w = elem.exp %v
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %u = loops.load %z[%i, %j]
// CHECK-NEXT:       %w_1 = elem.mul %u, %w
// CHECK-NEXT:       loops.yield %w_1
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>, %z : tensor<4x8xf32>) -> tensor<4xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %a[%i] : tensor<4xf32>
      %u = loops.load %z[%i, %j] : tensor<4x8xf32>
      %w = elem.mul %u, %v : f32
      loops.yield %w : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// But it does not leave a domain that may be empty: eager would not raise IndexError there.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %0: tensor<4xf32>) {
// CHECK-NEXT:     %m = loops.load %k[%i]
// CHECK-NEXT:     %n = loops.bound %m, 4 : i64
// CHECK-NEXT:     %v = loops.load %x[%n]
// CHECK-NEXT:     loops.store %v, %o[%i]
// CHECK-NEXT:     %1 = loops.reduce sum (%2 : s0) {
// CHECK-NEXT:       %3 = loops.load %z[%i, %2] : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>
// CHECK-NEXT:       %4 = elem.mul %3, %v
// CHECK-NEXT:       loops.yield %4
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %1, %0[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>, %k : tensor<4xi64>, %z : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4xf32> attributes {sym.symbols = #sym.symbols<s0 in [0, 16]>} {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %m = loops.load %k[%i] : tensor<4xi64>
    %n = loops.bound %m, 4 : i64
    %v = loops.load %x[%n] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : s0) {
      %v = loops.load %a[%i] : tensor<4xf32>
      %u = loops.load %z[%i, %j] : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>
      %w = elem.mul %u, %v : f32
      loops.yield %w : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// Near miss: dear, and read more often than it was computed (every element eight times).
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     %w = elem.exp %v
// CHECK-NEXT:     loops.store %w, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %y = loops.nest (%i : 8, %j : 4) outs(%o: tensor<8x4xf32>) {
// CHECK-NEXT:     %v = loops.load %a[%j]
// CHECK-NEXT:     loops.store %v, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> tensor<8x4xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 8, %j : 4) outs(%o : tensor<8x4xf32>) {
    %v = loops.load %a[%j] : tensor<4xf32>
    loops.store %v, %o[%i, %j] : tensor<8x4xf32>
  }
  func.return %y : tensor<8x4xf32>
}

// -----

// Near miss: a producer that does not store element i at point i, or twice, or under a mask.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     loops.store %v, %o[-%i + 3]
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = loops.nest (%i : 2) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     loops.store %v, %o[%i * 2]
// CHECK-NEXT:     loops.store %v, %o[%i * 2 + 1]
// CHECK-NEXT:   }
// CHECK-NEXT:   %y = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %v = loops.load %a[%j]
// CHECK-NEXT:     %u = loops.load %b[%i]
// CHECK-NEXT:     %w = elem.mul %u, %v
// CHECK-NEXT:     loops.store %w, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> tensor<4x4xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[3 - %i] : tensor<4xf32>
  }
  %b = loops.nest (%i : 2) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i * 2] : tensor<4xf32>
    loops.store %v, %o[%i * 2 + 1] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %v = loops.load %a[%j] : tensor<4xf32>
    %u = loops.load %b[%i] : tensor<4xf32>
    %w = elem.mul %u, %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x4xf32>
  }
  func.return %y : tensor<4x4xf32>
}
