// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// Two readers of a cheap value of one large tensor: both compute it, and nobody stores it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 32) {
// CHECK-NEXT:       %0 = loops.load %x[%j, %i]
// CHECK-NEXT:       %1 = loops.load %m[%i]
// CHECK-NEXT:       %v = elem.sub %0, %1 : f32
// CHECK-NEXT:       loops.yield %v
// CHECK:        %z = loops.nest (%j : 32) outs(%o: tensor<32xf32>) {
// CHECK-NEXT:     %s = loops.reduce prod (%i : 4) {
// CHECK-NEXT:       %v = loops.load %x[%j, %i]
// CHECK-NEXT:       %{{.*}} = loops.load %m[%i]
// CHECK-NEXT:       %w = elem.sub %v
// CHECK-NEXT:       loops.yield %w
func.func @main(%x : tensor<32x4xf32>, %m : tensor<4xf32>) -> (tensor<4xf32>, tensor<32xf32>) {
  %a = loops.nest (%j : 32, %i : 4) outs(%o : tensor<32x4xf32>) {
    %v = loops.load %x[%j, %i] : tensor<32x4xf32>
    %u = loops.load %m[%i] : tensor<4xf32>
    %w = elem.sub %v, %u : f32
    loops.store %w, %o[%j, %i] : tensor<32x4xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 32) {
      %v = loops.load %a[%j, %i] : tensor<32x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %z = loops.nest (%j : 32) outs(%o : tensor<32xf32>) {
    %s = loops.reduce prod (%i : 4) {
      %v = loops.load %a[%j, %i] : tensor<32x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%j] : tensor<32xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<32xf32>
}

// -----

// Near miss: dear; the first reader computes and stores it, the second reads it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %a = loops.nest (%i : 4)
// CHECK:        %z = loops.nest (%j : 8)
// CHECK:            loops.load %a[%j, %i]
func.func @main(%x : tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %a = loops.nest (%j : 8, %i : 4) outs(%o : tensor<8x4xf32>) {
    %v = loops.load %x[%j, %i] : tensor<8x4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%j, %i] : tensor<8x4xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %a[%j, %i] : tensor<8x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %z = loops.nest (%j : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce prod (%i : 4) {
      %v = loops.load %a[%j, %i] : tensor<8x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%j] : tensor<8xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<8xf32>
}

// -----

// Near miss: the caller gets it, so it is stored in any case.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %a = loops.nest (%i : 4)
func.func @main(%x : tensor<8x4xf32>, %m : tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %a = loops.nest (%j : 8, %i : 4) outs(%o : tensor<8x4xf32>) {
    %v = loops.load %x[%j, %i] : tensor<8x4xf32>
    %u = loops.load %m[%j, %i] : tensor<8x4xf32>
    %w = elem.sub %v, %u : f32
    loops.store %w, %o[%j, %i] : tensor<8x4xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %a[%j, %i] : tensor<8x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y, %a : tensor<4xf32>, tensor<8x4xf32>
}

// -----

// The value between a row's sum and another reduction is not stored as a stage: it waits for the reduction, which joins.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %0: tensor<4xf32>) {
// CHECK:          loops.store %s, %o[%i]
// CHECK-NEXT:     %1 = loops.reduce maximum (%2 : 8) {
// CHECK-NEXT:       %3 = loops.load %x[%i, %2]
// CHECK-NEXT:       %4 = loops.load %y[%i, %2]
// CHECK-NEXT:       %5 = elem.sub %3, %4
// CHECK-NEXT:       %6 = elem.div %5, %s
// CHECK-NEXT:       loops.yield %6
func.func @main(%x : tensor<4x8xf32>, %y : tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %b = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %u = loops.load %y[%i, %j] : tensor<4x8xf32>
    %s = loops.load %a[%i] : tensor<4xf32>
    %d = elem.sub %v, %u : f32
    %w = elem.div %d, %s : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %b[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %a, %z : tensor<4xf32>, tensor<4xf32>
}
