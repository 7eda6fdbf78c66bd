// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// A producer is computed in the scan, and a consumer at the same point joins it, though the scan walks down columns.
// CHECK:      func.func @main
// CHECK-NEXT:   %s, %y = loops.nest (%j : 8) outs(%o: tensor<4x8xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     loops.scan (%i : 4) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       %w = elem.exp %v
// CHECK-NEXT:       %t = loops.running sum %w
// CHECK-NEXT:       loops.store %t, %o[%i, %j]
// CHECK-NEXT:       %1 = elem.log %t
// CHECK-NEXT:       loops.store %1, %0[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %s = loops.nest (%j : 8) outs(%o : tensor<4x8xf32>) {
    loops.scan (%i : 4) {
      %v = loops.load %a[%i, %j] : tensor<4x8xf32>
      %t = loops.running sum %v : f32
      loops.store %t, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %s[%i, %j] : tensor<4x8xf32>
    %w = elem.log %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}

// -----

// Near miss: the consumer reads the row the other way round. It waits until the scan is over.
// CHECK:      func.func @main
// CHECK:          loops.scan (%j : 8) {
// CHECK:          loops.for
// CHECK-NEXT:       {{.*}} = loops.load %o[%i, -{{.*}} + 7]
// CHECK-NEXT:       loops.store
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    loops.scan (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %t = loops.running sum %v : f32
      loops.store %t, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %s[%i, 7 - %j] : tensor<4x8xf32>
    loops.store %v, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}

// -----

// What a scatter started from is not what it gives: a consumer reads the elements back when the scan is over.
// CHECK:      func.func @main
// CHECK-NEXT:   %s, %y = loops.nest (%d : 8) outs(%o: tensor<5x8xf32>, %0: tensor<5x8xf32>) {
// CHECK-NEXT:     loops.for (%r : 5) {
// CHECK-NEXT:       %z = elem.constant 0.0
// CHECK-NEXT:       loops.store %z, %o[%r, %d]
// CHECK-NEXT:     }
// CHECK-NEXT:     loops.scan (%t : 4) {
// CHECK-NEXT:       %k = loops.load %i[%t]
// CHECK-NEXT:       %b = loops.bound %k, 5
// CHECK-NEXT:       %v = loops.load %x[%t, %d]
// CHECK-NEXT:       %w = elem.mul %v, %v
// CHECK-NEXT:       loops.combine sum %w, %o[%b, %d]
// CHECK-NEXT:     }
// CHECK-NEXT:     loops.for (%1 : 5) {
// CHECK-NEXT:       %2 = loops.load %o[%1, %d]
// CHECK-NEXT:       %3 = elem.sqrt %2
// CHECK-NEXT:       loops.store %3, %0[%1, %d]
func.func @main(%x : tensor<4x8xf32>, %i : tensor<4xi64>) -> tensor<5x8xf32> {
  %a = loops.nest (%t : 4, %d : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %x[%t, %d] : tensor<4x8xf32>
    %w = elem.mul %v, %v : f32
    loops.store %w, %o[%t, %d] : tensor<4x8xf32>
  }
  %s = loops.nest (%d : 8) outs(%o : tensor<5x8xf32>) {
    loops.for (%r : 5) {
      %z = elem.constant 0.0 : f32
      loops.store %z, %o[%r, %d] : tensor<5x8xf32>
    }
    loops.scan (%t : 4) {
      %k = loops.load %i[%t] : tensor<4xi64>
      %b = loops.bound %k, 5 : i64
      %v = loops.load %a[%t, %d] : tensor<4x8xf32>
      loops.combine sum %v, %o[%b, %d] : tensor<5x8xf32>
    }
  }
  %y = loops.nest (%r : 5, %d : 8) outs(%o : tensor<5x8xf32>) {
    %v = loops.load %s[%r, %d] : tensor<5x8xf32>
    %w = elem.sqrt %v : f32
    loops.store %w, %o[%r, %d] : tensor<5x8xf32>
  }
  func.return %y : tensor<5x8xf32>
}
