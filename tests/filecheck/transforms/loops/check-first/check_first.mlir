// RUN: cuesta-opt %s -p "check-first" --split-input-file
// ROUNDTRIP

// The check of one index comes before the copy; equal checks are one; what the scatter's points have no part in, the check has not.
// CHECK:      %checked = loops.nest (%r : 2) outs(%0: tensor<2xi64>) {
// CHECK-NEXT:   %j = loops.load %p[%r] : tensor<2xi64>
// CHECK-NEXT:   %k = loops.bound %j, 128 wrap : i64
// CHECK-NEXT:   %1 = loops.index [%k] : i64
// CHECK-NEXT:   loops.store %1, %0[%r] : tensor<2xi64>
// CHECK-NEXT: }
// CHECK-NEXT: %s = loops.nest (%i : 8, %d : 64, %t : 128)
// CHECK:      loops.bound %j{{.*}}, 128 wrap checked : i64
// CHECK:      loops.combine assign
// CHECK:      loops.bound %j{{.*}}, 128 wrap checked : i64
// CHECK-NOT:  loops.bound
func.func @main(%c : tensor<8x128x64xf32>, %p : tensor<2xi64>, %x : tensor<8x2x64xf32>) -> (tensor<2xf32>, tensor<8x128x64xf32>) attributes {aten.writes_to = [0 : i64]} {
  %s = loops.nest (%i : 8, %d : 64, %t : 128) outs(%o : tensor<8x128x64xf32>) {
    %v = loops.load %c[%i, %t, %d] : tensor<8x128x64xf32>
    loops.store %v, %o[%i, %t, %d] : tensor<8x128x64xf32>
  }
  %y = loops.nest (%i : 8, %d : 64) outs(%o : tensor<8x128x64xf32>) updates(%s) {
    loops.scan (%r : 2) {
      %j = loops.load %p[%r] : tensor<2xi64>
      %k = loops.bound %j, 128 wrap : i64
      %v = loops.load %x[%i, %r, %d] : tensor<8x2x64xf32>
      loops.combine assign %v, %o[%i, %k, %d] : tensor<8x128x64xf32>
    }
  }
  %z = loops.nest (%r : 2) outs(%o : tensor<2xf32>) {
    %j = loops.load %p[%r] : tensor<2xi64>
    %k = loops.bound %j, 128 wrap : i64
    %v = loops.load %x[0, 0, %k mod 64] : tensor<8x2x64xf32>
    loops.store %v, %o[%r] : tensor<2xf32>
  }
  func.return %z, %y : tensor<2xf32>, tensor<8x128x64xf32>
}

// -----

// An index of rank 0, and one that is read at another one: both are checked, the second as soon as what it reads is there.
// CHECK:      %checked = loops.nest () outs(%0: tensor<i64>) {
// CHECK:        loops.bound {{.*}}, 4 : i64
// CHECK:      %made = loops.nest
// CHECK:      %checked_1 = loops.nest () outs
// CHECK:        loops.bound {{.*}}, 4 checked : i64
// CHECK:        loops.bound {{.*}}, 8 wrap : i64
// CHECK:      %y = loops.nest
// CHECK:        loops.bound {{.*}}, 4 checked : i64
// CHECK:        loops.bound {{.*}}, 8 wrap checked : i64
func.func @main(%c : tensor<8xf32>, %p : tensor<i64>, %q : tensor<4xi64>) -> tensor<8xf32> attributes {aten.writes_to = [0 : i64]} {
  %made = loops.nest (%i : 4) outs(%o : tensor<4xi64>) {
    %v = loops.load %q[%i] : tensor<4xi64>
    %w = elem.neg %v : i64
    loops.store %w, %o[%i] : tensor<4xi64>
  }
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %j = loops.load %p[] : tensor<i64>
    %k = loops.bound %j, 4 : i64
    %l = loops.load %made[%k] : tensor<4xi64>
    %m = loops.bound %l, 8 wrap : i64
    %v = loops.load %c[%m] : tensor<8xf32>
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}

// -----

// Sizes that only a call knows.
// CHECK:      %checked = loops.nest (%r : s0) outs(%0: tensor<?xi64
// CHECK:      checked : i64
func.func @main(%n : !sym.int<s0>, %c : tensor<8xf32>, %p : tensor<?xi64, #aten.layout<sizes = [s0], strides = [1]>>) -> (tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>, tensor<8xf32>) attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>, aten.writes_to = [1 : i64]} {
  %y = loops.nest (%r : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>) {
    %j = loops.load %p[%r] : tensor<?xi64, #aten.layout<sizes = [s0], strides = [1]>>
    %k = loops.bound %j, 8 wrap : i64
    %v = loops.load %c[%k] : tensor<8xf32>
    loops.store %v, %o[%r] : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
  }
  %z = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %v = loops.load %c[%i] : tensor<8xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i] : tensor<8xf32>
  }
  func.return %y, %z : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>, tensor<8xf32>
}
