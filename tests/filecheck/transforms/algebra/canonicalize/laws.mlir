// RUN: cuesta-opt %s --split-input-file -p canonicalize,dce

// Fires: a division by a power of two, what is constant by now, signs, a select by a negation, conversions there and back.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4xbf16>) {
// CHECK-NEXT:     %a = loops.load %x[%i] : tensor<4xf32>
// CHECK-NEXT:     %d = elem.constant 0.25 : f32
// CHECK-NEXT:     %d_1 = elem.mul %a, %d : f32
// CHECK-NEXT:     %h = elem.constant 7.0 : f32
// CHECK-NEXT:     %k = elem.lt %d_1, %h : f32
// CHECK-NEXT:     %l = elem.select %k, %a, %d_1 : f32
// CHECK-NEXT:     loops.store %l, %o[%i] : tensor<4xf32>
// CHECK-NEXT:     %n = loops.load %w[%i] : tensor<4xbf16>
// CHECK-NEXT:     loops.store %n, %p[%i] : tensor<4xbf16>
// CHECK-NEXT:   }
func.func @main(%x : tensor<4xf32>, %w : tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xbf16>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xbf16>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %four = elem.constant 4.0 : f32
    %d = elem.div %a, %four : f32
    %three = elem.constant 3.0 : f32
    %h = elem.add %four, %three : f32
    %k = elem.lt %d, %h : f32
    %not = elem.not %k : i1
    %minus = elem.neg %a : f32
    %plus = elem.neg %minus : f32
    %l = elem.select %not, %d, %plus : f32
    loops.store %l, %o[%i] : tensor<4xf32>
    %n = loops.load %w[%i] : tensor<4xbf16>
    %wide = elem.convert %n : bf16 to f32
    %narrow = elem.convert %wide : f32 to bf16
    loops.store %narrow, %p[%i] : tensor<4xbf16>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xbf16>
}

// -----

// Near misses: x / 3; x + 0.0, because −0 + 0 is 0; x · 0; a quotient by the least power of two, whose reciprocal is
// infinite; bf16 that was rounded on the way.
// CHECK:      elem.div %a, %three : f32
// CHECK:      elem.add %b, %zero : f32
// CHECK:      elem.mul %a, %zero : f32
// CHECK:      elem.div %a, %least : f32
// CHECK:      elem.convert %a : f32 to bf16
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %u = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %q : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %three = elem.constant 3.0 : f32
    %zero = elem.constant 0.0 : f32
    %least = elem.constant 1.0e-45 : f32
    %b = elem.div %a, %three : f32
    %c = elem.add %b, %zero : f32
    %d = elem.mul %a, %zero : f32
    %e = elem.div %a, %least : f32
    %f = elem.maximum %c, %d : f32
    %g = elem.maximum %f, %e : f32
    loops.store %g, %o[%i] : tensor<4xf32>
    %k = elem.convert %a : f32 to bf16
    %l = elem.convert %k : bf16 to f32
    loops.store %l, %q[%i] : tensor<4xf32>
  }
  func.return %y, %u : tensor<4xf32>, tensor<4xf32>
}

// -----

// Reductions: of what they do not change, where there is a point; negations come out of them.
// CHECK:      loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4xi1>, %q: tensor<4xf32>) {
// CHECK-NEXT:   %a = loops.load %x[%i] : tensor<4xf32>
// CHECK-NEXT:   loops.store %a, %o[%i] : tensor<4xf32>
// CHECK-NEXT:   %all = loops.reduce any (%k : 3) {
// CHECK-NEXT:     %b = loops.load %w[%i, %k] : tensor<4x3xi1>
// CHECK-NEXT:     loops.yield %b : i1
// CHECK-NEXT:   } : i1
// CHECK-NEXT:   elem.not
// CHECK:        loops.reduce maximum
func.func @main(%x : tensor<4xf32>, %w : tensor<4x3xi1>, %v : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> (tensor<4xf32>, tensor<4xi1>, tensor<4xf32>) attributes {sym.symbols = #sym.symbols<s0 in [0, 64]>} {
  %y, %z, %u = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xi1>, %q : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %m = loops.reduce maximum (%j : 5) {
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i] : tensor<4xf32>
    %all = loops.reduce all (%k : 3) {
      %b = loops.load %w[%i, %k] : tensor<4x3xi1>
      %c = elem.not %b : i1
      loops.yield %c : i1
    } : i1
    loops.store %all, %p[%i] : tensor<4xi1>
    // Near miss: nobody knows whether there is a point.
    %n = loops.reduce maximum (%l : s0) {
      loops.yield %a : f32
    } : f32
    loops.store %n, %q[%i] : tensor<4xf32>
  }
  func.return %y, %z, %u : tensor<4xf32>, tensor<4xi1>, tensor<4xf32>
}

// -----

// Edges: rank 0, no points, no elements.
// CHECK:      loops.nest () outs(%o: tensor<f32>) {
// CHECK-NEXT:   %{{.*}} = elem.constant 0.0 : f32
// CHECK-NEXT:   loops.store
// CHECK:      loops.nest (%i : 0) outs(%p: tensor<0xf32>) {
// CHECK-NEXT:   %b = loops.load %x[%i] : tensor<0xf32>
// CHECK-NEXT:   loops.store %b, %p[%i]
func.func @main(%x : tensor<0xf32>) -> (tensor<f32>, tensor<0xf32>) {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 0) {
      %a = loops.load %x[%j] : tensor<0xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  %z = loops.nest (%i : 0) outs(%p : tensor<0xf32>) {
    %b = loops.load %x[%i] : tensor<0xf32>
    %one = elem.constant 1.0 : f32
    %c = elem.mul %b, %one : f32
    loops.store %c, %p[%i] : tensor<0xf32>
  }
  func.return %y, %z : tensor<f32>, tensor<0xf32>
}

// -----

// Near miss: a reduction that also stores, or that may fail, is more than its result.
// CHECK:      %m = loops.reduce maximum (%j : 1) {
// CHECK:        loops.store
// CHECK:      %n = loops.reduce maximum (%k : 1) {
// CHECK:        loops.bound
func.func @main(%x : tensor<4xf32>, %t : tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y, %z, %u = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>, %q : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %m = loops.reduce maximum (%j : 1) {
      loops.store %a, %p[%i] : tensor<4xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i] : tensor<4xf32>
    %c = loops.load %t[%i] : tensor<4xi64>
    %n = loops.reduce maximum (%k : 1) {
      %b = loops.bound %c, 100 wrap : i64
      loops.yield %a : f32
    } : f32
    loops.store %n, %q[%i] : tensor<4xf32>
  }
  func.return %y, %z, %u : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What stands for a variable may be a constant in the body: it is made anew outside of it.
// CHECK:      %m = loops.reduce maximum (%j : 3) {
// CHECK-NEXT:   %a = loops.load %x[%i, %j]
// CHECK-NEXT:   loops.yield %a : f32
// CHECK-NEXT: } : f32
// CHECK-NEXT: %{{.*}} = elem.constant 2.0 : f32
// CHECK-NEXT: elem.maximum
func.func @main(%x : tensor<4x3xf32>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %m = loops.reduce maximum (%j : 3) {
      %a = loops.load %x[%i, %j] : tensor<4x3xf32>
      %two = elem.constant 2.0 : f32
      %b = elem.maximum %a, %two : f32
      loops.yield %b : f32
    } : f32
    loops.store %m, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// A sum over nothing is 0, and what the schedule said of its loop is said of another nest.
// CHECK:      %y = loops.nest (%i : 32, %j : 32) outs(%o: tensor<32x32xf32>) {
// CHECK-NEXT:   elem.constant 0.0 : f32
func.func @main(%a : tensor<32x0xf32>, %b : tensor<0x32xf32>) -> tensor<32x32xf32> {
  %y = loops.nest (%i : 32, %j : 32) outs(%o : tensor<32x32xf32>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, tf32 = 1> {
    %s = loops.reduce sum (%k : 0) {
      %0 = loops.load %a[%i, %k] : tensor<32x0xf32>
      %1 = loops.load %b[%k, %j] : tensor<0x32xf32>
      %p = elem.mul %0, %1 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<32x32xf32>
  }
  func.return %y : tensor<32x32xf32>
}
