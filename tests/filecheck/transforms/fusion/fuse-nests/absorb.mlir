// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// The consumer's first stage computes what its stages read, and stores it for the later ones and for who else reads it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %a = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %1 = loops.load %x[%i, %j]
// CHECK-NEXT:       %v = elem.exp %1
// CHECK-NEXT:       loops.store %v, %0[%i, %j]
// CHECK-NEXT:       %w = elem.mul %v, %v
// CHECK-NEXT:       loops.yield %w
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.for (%j : 8) {
// CHECK-NEXT:       %v = loops.load %0[%i, %j]
// CHECK-NEXT:       %w = elem.div %v, %s
// CHECK-NEXT:       loops.store %w, %o[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %a[%i, %j] : tensor<4x8xf32>
      %u = loops.load %a[%i, %j] : tensor<4x8xf32>
      %w = elem.mul %u, %v : f32
      loops.yield %w : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %a[%i, %j] : tensor<4x8xf32>
      %w = elem.div %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// In row-major order by way of another shape; two results, of which one is read.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %a, %b = loops.nest (%i : 2) outs(%o: tensor<2x12xf32>, %0: tensor<24xf32>, %1: tensor<24xf32>) {
// CHECK-NEXT:     %s = loops.reduce maximum (%j : 3, %k : 4) {
// CHECK-NEXT:       %2 = loops.load %x[%i * 12 + %j * 4 + %k]
// CHECK-NEXT:       %v = elem.exp %2
// CHECK-NEXT:       %3 = elem.neg %v
// CHECK-NEXT:       loops.store %v, %0[%i * 12 + %j * 4 + %k]
// CHECK-NEXT:       loops.store %3, %1[%i * 12 + %j * 4 + %k]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.for (%j : 12) {
// CHECK-NEXT:       %v = loops.load %0[%i * 12 + %j]
// CHECK-NEXT:       %w = elem.sub %v, %s
// CHECK-NEXT:       loops.store %w, %o[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %b, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<24xf32>) -> (tensor<24xf32>, tensor<24xf32>, tensor<2x12xf32>) {
  %a, %b = loops.nest (%i : 24) outs(%o : tensor<24xf32>, %p : tensor<24xf32>) {
    %v = loops.load %x[%i] : tensor<24xf32>
    %w = elem.exp %v : f32
    %u = elem.neg %w : f32
    loops.store %w, %o[%i] : tensor<24xf32>
    loops.store %u, %p[%i] : tensor<24xf32>
  }
  %y = loops.nest (%i : 2) outs(%o : tensor<2x12xf32>) {
    %s = loops.reduce maximum (%j : 3, %k : 4) {
      %v = loops.load %a[%i * 12 + %j * 4 + %k] : tensor<24xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 12) {
      %v = loops.load %a[%i * 12 + %j] : tensor<24xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<2x12xf32>
    }
  }
  func.return %a, %b, %y : tensor<24xf32>, tensor<24xf32>, tensor<2x12xf32>
}

// -----

// Near misses: reads that go by columns and then by rows, one that is masked, one of another row: what a point reads, others compute.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i, %j]
// CHECK-NEXT:     %w = elem.exp %v
// CHECK-NEXT:     loops.store %w, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 4) {
// CHECK-NEXT:       %v = loops.load %a[%j, %i]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     %u = loops.load %a[%i, 0]
// CHECK-NEXT:     %w = elem.add %s, %u
// CHECK-NEXT:     loops.store %w, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i, %j]
// CHECK-NEXT:     %w = elem.log1p %v
// CHECK-NEXT:     loops.store %w, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %m = loops.index [%i] : i64
// CHECK-NEXT:     %one = elem.constant 1 : i64
// CHECK-NEXT:     %c = elem.ge %m, %one
// CHECK-NEXT:     %p = elem.constant 0.0 : f32
// CHECK-NEXT:     %s = loops.reduce sum (%j : 4) {
// CHECK-NEXT:       %v = loops.load %b[%i, %j]
// CHECK-NEXT:       %u = loops.load %b[%i - 1, %j] if %c else %p
// CHECK-NEXT:       %w = elem.sub %v, %u
// CHECK-NEXT:       loops.yield %w
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y, %b, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x4xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 4) {
      %v = loops.load %a[%j, %i] : tensor<4x4xf32>
      loops.yield %v : f32
    } : f32
    %u = loops.load %a[%i, 0] : tensor<4x4xf32>
    %w = elem.add %s, %u : f32
    loops.store %w, %o[%i] : tensor<4xf32>
  }
  %b = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x4xf32>
    %w = elem.log1p %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x4xf32>
  }
  %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %m = loops.index [%i] : i64
    %one = elem.constant 1 : i64
    %c = elem.ge %m, %one : i64
    %p = elem.constant 0.0 : f32
    %s = loops.reduce sum (%j : 4) {
      %v = loops.load %b[%i, %j] : tensor<4x4xf32>
      %u = loops.load %b[%i - 1, %j] if %c else %p : tensor<4x4xf32>
      %w = elem.sub %v, %u : f32
      loops.yield %w : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y, %b, %z : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>
}

// -----

// Not the leading axis: each channel computes its part of what is added up, and stores it on the way.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %a = loops.nest (%c : 3) outs(%o: tensor<3xf32>, %0: tensor<2x3x4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%n : 2, %j : 4) {
// CHECK-NEXT:       %1 = loops.load %x[%n, %c, %j]
// CHECK-NEXT:       %v = elem.exp %1 : f32
// CHECK-NEXT:       loops.store %v, %0[%n, %c, %j]
// CHECK-NEXT:       loops.yield %v : f32
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     %t = loops.reduce maximum (%j : 4, %n : 2) {
// CHECK-NEXT:       %v = loops.load %0[-%n + 1, %c, %j]
func.func @main(%x : tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>) {
  %a = loops.nest (%n : 2, %c : 3, %j : 4) outs(%o : tensor<2x3x4xf32>) {
    %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
  }
  %y = loops.nest (%c : 3) outs(%o : tensor<3xf32>) {
    %s = loops.reduce sum (%n : 2, %j : 4) {
      %v = loops.load %a[%n, %c, %j] : tensor<2x3x4xf32>
      loops.yield %v : f32
    } : f32
    %t = loops.reduce maximum (%j : 4, %n : 2) {
      %v = loops.load %a[1 - %n, %c, %j] : tensor<2x3x4xf32>
      loops.yield %v : f32
    } : f32
    %w = elem.div %s, %t : f32
    loops.store %w, %o[%c] : tensor<3xf32>
  }
  func.return %a, %y : tensor<2x3x4xf32>, tensor<3xf32>
}

// -----

// Near miss: a diagonal is read, which is not all of it.
// CHECK:      func.func @main
// CHECK:        %y = loops.nest (%i : 16) outs(%o: tensor<16xf32>) {
// CHECK:          %v = loops.load %a[%j, %j]
func.func @main(%x : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16xf32>) {
  %a = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x4xf32>
  }
  %y = loops.nest (%i : 16) outs(%o : tensor<16xf32>) {
    %s = loops.reduce sum (%j : 4) {
      %v = loops.load %a[%j, %j] : tensor<4x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<16xf32>
  }
  func.return %a, %y : tensor<4x4xf32>, tensor<16xf32>
}

// -----

// Near miss: the loop that would compute an element reads another one of the row, which comes later.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4, %j : 8)
// CHECK:        %y = loops.nest (%i : 4)
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %a[%i, %j]
// CHECK-NEXT:       %u = loops.load %a[%i, (%j + 7) mod 8]
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %a[%i, %j] : tensor<4x8xf32>
      %u = loops.load %a[%i, (%j + 7) mod 8] : tensor<4x8xf32>
      %w = elem.mul %u, %v : f32
      loops.yield %w : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// It may read it when the loop is done.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %a = loops.nest (%i : 4)
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %a[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %u = loops.load %a[%i, (%j + 7) mod 8] : tensor<4x8xf32>
      %w = elem.div %u, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4x8xf32>
}
