// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// The greatest of all that the rows store: each row finds that of its part, when it has it at hand.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %0 = loops.nest (%i : 64) outs(%o: tensor<64x1024xf32>, %1: tensor<64xf32>) {
// CHECK:          loops.for (%j : 1024) {
// CHECK:            loops.store %w, %o[%i, %j]
// CHECK:          %2 = loops.reduce maximum (%3 : 1024) {
// CHECK-NEXT:       %4 = loops.load %o[%i, %3]
// CHECK-NEXT:       %5 = elem.mul %4, %4
// CHECK-NEXT:       loops.yield %5
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %2, %1[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %y = loops.nest () outs(%o: tensor<f32>) {
// CHECK-NEXT:     %s = loops.reduce maximum (%1 : 64) {
// CHECK-NEXT:       %2 = loops.load %0[%1]
// CHECK-NEXT:       loops.yield %2
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     %1 = elem.neg %s
// CHECK-NEXT:     loops.store %1, %o[]
func.func @main(%x : tensor<64x1024xf32>) -> (tensor<64x1024xf32>, tensor<f32>) {
  %a = loops.nest (%i : 64) outs(%o : tensor<64x1024xf32>) {
    %s = loops.reduce maximum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<64x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<64x1024xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<64x1024xf32>
    }
  }
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce maximum (%i : 64, %j : 1024) {
      %v = loops.load %a[%i, %j] : tensor<64x1024xf32>
      %w = elem.mul %v, %v : f32
      loops.yield %w : f32
    } : f32
    %n = elem.neg %s : f32
    loops.store %n, %o[] : tensor<f32>
  }
  func.return %a, %y : tensor<64x1024xf32>, tensor<f32>
}

// -----

// The producer's axis is not the leading one: the parts are those of the channels.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %0 = loops.nest (%c : 32) outs(%o: tensor<4x32x512xf32>, %1: tensor<32xf32>) {
// CHECK:          %2 = loops.reduce maximum (%3 : 4, %4 : 512) {
// CHECK-NEXT:       %5 = loops.load %o[%3, %c, %4]
// CHECK-NEXT:       loops.yield %5
// CHECK:          loops.store %2, %1[%c]
func.func @main(%x : tensor<4x32x512xf32>) -> (tensor<4x32x512xf32>, tensor<f32>) {
  %a = loops.nest (%c : 32) outs(%o : tensor<4x32x512xf32>) {
    %s = loops.reduce maximum (%n : 4, %j : 512) {
      %v = loops.load %x[%n, %c, %j] : tensor<4x32x512xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%n : 4, %j : 512) {
      %v = loops.load %x[%n, %c, %j] : tensor<4x32x512xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%n, %c, %j] : tensor<4x32x512xf32>
    }
  }
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce maximum (%n : 4, %c : 32, %j : 512) {
      %v = loops.load %a[%n, %c, %j] : tensor<4x32x512xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %a, %y : tensor<4x32x512xf32>, tensor<f32>
}

// -----

// Near misses: a reduction whose parts do not combine by their kind; one that reads the rows in another order.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 64)
// CHECK:        %y, %k = loops.nest () outs(%o: tensor<f32>, %p: tensor<i64>) {
// CHECK-NEXT:     %s, %t = loops.reduce argmax (%i : 64, %j : 1024) {
// CHECK:        %z = loops.nest ()
// CHECK-NEXT:     %s = loops.reduce sum (%i : 1024, %j : 64) {
// CHECK-NEXT:       %v = loops.load %a[%j, %i]
func.func @main(%x : tensor<64x1024xf32>) -> (tensor<64x1024xf32>, tensor<f32>, tensor<i64>, tensor<f32>) {
  %a = loops.nest (%i : 64) outs(%o : tensor<64x1024xf32>) {
    %s = loops.reduce maximum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<64x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<64x1024xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<64x1024xf32>
    }
  }
  %y, %k = loops.nest () outs(%o : tensor<f32>, %p : tensor<i64>) {
    %s, %t = loops.reduce argmax (%i : 64, %j : 1024) {
      %v = loops.load %a[%i, %j] : tensor<64x1024xf32>
      loops.yield %v : f32
    } : f32, i64
    loops.store %s, %o[] : tensor<f32>
    loops.store %t, %p[] : tensor<i64>
  }
  %z = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%i : 1024, %j : 64) {
      %v = loops.load %a[%j, %i] : tensor<64x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %a, %y, %k, %z : tensor<64x1024xf32>, tensor<f32>, tensor<i64>, tensor<f32>
}
