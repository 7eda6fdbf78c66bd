// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// A consumer of a row's sum becomes a further stage; what the reduction gave is forwarded, not read back.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:     loops.for (%1 : 8) {
// CHECK-NEXT:       %2 = loops.load %x[%i, %1]
// CHECK-NEXT:       %3 = elem.div %2, %s
// CHECK-NEXT:       loops.store %3, %0[%i, %1]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %u = loops.load %a[%i] : tensor<4xf32>
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.div %v, %u : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %a, %y : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// A pointwise consumer joins the last loop, where that walks its points; a reduction has to wait for all of them, and
// reads back from memory.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y, %z = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %0: tensor<4x8xf32>, %1: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce maximum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.for (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       %w = elem.sub %v, %s
// CHECK-NEXT:       loops.store %w, %o[%i, %j]
// CHECK-NEXT:       %2 = elem.exp %w
// CHECK-NEXT:       loops.store %2, %0[(%i * 8 + %j) floordiv 8, (%i * 8 + %j) mod 8]
// CHECK-NEXT:     }
// CHECK-NEXT:     %2 = loops.reduce sum (%3 : 8) {
// CHECK-NEXT:       %4 = loops.load %0[%i, %3]
// CHECK-NEXT:       loops.yield %4
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %2, %1[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%k : 32) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %a[%k floordiv 8, %k mod 8] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%k floordiv 8, %k mod 8] : tensor<4x8xf32>
  }
  %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %y[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y, %z : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>
}

// -----

// The neighbour in the row is there only when the whole row is: a stage of its own.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     %s = loops.reduce maximum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.for (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       %w = elem.sub %v, %s
// CHECK-NEXT:       loops.store %w, %o[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:     loops.for (%1 : 8) {
// CHECK-NEXT:       %2 = loops.load %o[%i, %1]
// CHECK-NEXT:       %3 = loops.load %o[%i, -%1 + 7]
// CHECK-NEXT:       %4 = elem.mul %2, %3
// CHECK-NEXT:       loops.store %4, %0[%i, %1]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %a[%i, %j] : tensor<4x8xf32>
    %u = loops.load %a[%i, 7 - %j] : tensor<4x8xf32>
    %w = elem.mul %v, %u : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Near misses: another row's sum; sums of columns; a gather.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 4) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %y = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %u = loops.load %a[-%i + 3]
// CHECK-NEXT:     loops.store %u, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %z = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %u = loops.load %a[%j]
// CHECK-NEXT:     loops.store %u, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %w = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %n = loops.load %k[%i]
// CHECK-NEXT:     %m = loops.bound %n, 4 : i64
// CHECK-NEXT:     %u = loops.load %a[%m]
// CHECK-NEXT:     loops.store %u, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y, %z, %w
// CHECK-NEXT: }
func.func @main(%x : tensor<4x4xf32>, %k : tensor<4xi64>) -> (tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 4) {
      %v = loops.load %x[%i, %j] : tensor<4x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %u = loops.load %a[3 - %i] : tensor<4xf32>
    loops.store %u, %o[%i, %j] : tensor<4x4xf32>
  }
  %z = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %u = loops.load %a[%j] : tensor<4xf32>
    loops.store %u, %o[%i, %j] : tensor<4x4xf32>
  }
  %w = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %n = loops.load %k[%i] : tensor<4xi64>
    %m = loops.bound %n, 4 : i64
    %u = loops.load %a[%m] : tensor<4xf32>
    loops.store %u, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y, %z, %w : tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
}
