// RUN: cuesta-opt %s --split-input-file -p relax-accuracy{target=cuda},dce

// Only ever rounded, by way of products: a SwiGLU. The precision is that of the finer rounding.
// CHECK:      func.func @main
// CHECK:          %c = elem.sigmoid %b : f32 precision f16
// CHECK-NEXT:     %d = elem.mul %c, %b : f32
// CHECK-NEXT:     %e = elem.convert %d : f32 to bf16
// CHECK-NEXT:     %f = elem.convert %d : f32 to f16
func.func @main(%x : tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xf16>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xbf16>, %p : tensor<4xf16>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.sigmoid %b : f32
    %d = elem.mul %c, %b : f32
    %e = elem.convert %d : f32 to bf16
    %f = elem.convert %d : f32 to f16
    loops.store %e, %o[%i] : tensor<4xbf16>
    loops.store %f, %p[%i] : tensor<4xf16>
  }
  func.return %y, %z : tensor<4xbf16>, tensor<4xf16>
}

// -----

// A softmax: the sum of what is never negative is as good as its terms.
// CHECK:      func.func @main
// CHECK:          %s = loops.reduce sum (%j : 8) {
// CHECK:            elem.exp %c : f32 precision bf16
// CHECK:          %g = elem.exp %f : f32 precision bf16
// CHECK-NEXT:     %h = elem.div %g, %s : f32 precision bf16
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xbf16> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4x8xbf16>) {
    %m = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 8) {
      %b = loops.load %x[%i, %j] : tensor<4x8xf32>
      %c = elem.sub %b, %m : f32
      %d = elem.exp %c : f32
      loops.yield %d : f32
    } : f32
    loops.for (%j : 8) {
      %e = loops.load %x[%i, %j] : tensor<4x8xf32>
      %f = elem.sub %e, %m : f32
      %g = elem.exp %f : f32
      %h = elem.div %g, %s : f32
      %k = elem.convert %h : f32 to bf16
      loops.store %k, %o[%i, %j] : tensor<4x8xbf16>
    }
  }
  func.return %y : tensor<4x8xbf16>
}

// -----

// 1 + erf x and 1 + tanh x, of which a difference near −1 leaves nothing, become functions without one. The right of
// the sum's operands may be the 1.
// CHECK:      func.func @main
// CHECK:          [[minus:%.*]] = elem.neg %b : f32
// CHECK-NEXT:     %d = elem.erfc [[minus]] : f32 precision bf16
// CHECK:          [[double:%.*]] = elem.mul %b, [[two:%.*]] : f32
// CHECK-NEXT:     [[sigma:%.*]] = elem.sigmoid [[double]] : f32 precision bf16
// CHECK-NEXT:     %f = elem.mul [[sigma]], [[two]] : f32
// CHECK-NEXT:     %g = elem.mul %d, %f : f32
func.func @main(%x : tensor<4xf32>) -> tensor<4xbf16> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xbf16>) {
    %b = loops.load %x[%i] : tensor<4xf32>
    %one = elem.constant 1.0 : f32
    %c = elem.erf %b : f32
    %d = elem.add %one, %c : f32
    %e = elem.tanh %b : f32
    %f = elem.add %e, %one : f32
    %g = elem.mul %d, %f : f32
    %h = elem.convert %g : f32 to bf16
    loops.store %h, %o[%i] : tensor<4xbf16>
  }
  func.return %y : tensor<4xbf16>
}

// -----

// Near misses: a value that is also stored as it is, compared, subtracted from, an exponent, summed with what may be
// negative, or cast to an integer; a reduction that multiplies; the sum of a reduction that may cancel.
// CHECK:      func.func @main
// CHECK-NOT:  precision
// CHECK:      func.return
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4xbf16>, tensor<4xf32>, tensor<4xi32>) {
  %y, %z, %w = loops.nest (%i : 4) outs(%o : tensor<4xbf16>, %p : tensor<4xf32>, %q : tensor<4xi32>) {
    %one = elem.constant 1.0 : f32
    %a = loops.load %x[%i, 0] : tensor<4x8xf32>
    %b = elem.exp %a : f32
    loops.store %b, %p[%i] : tensor<4xf32>
    %c = elem.sigmoid %a : f32
    %d = elem.gt %c, %a : f32
    %e = elem.sub %one, %c : f32
    %f = elem.tanh %a : f32
    %g = elem.exp2 %f : f32
    %h = elem.add %g, %a : f32
    %k = elem.select %d, %e, %h : f32
    %l = elem.mul %k, %b : f32
    %m = elem.sqrt %a : f32
    %n = elem.convert %m : f32 to i32
    loops.store %n, %q[%i] : tensor<4xi32>
    %r = loops.reduce prod (%j : 8) {
      %s = loops.load %x[%i, %j] : tensor<4x8xf32>
      %t = elem.exp %s : f32
      loops.yield %t : f32
    } : f32
    %u = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %t = elem.tanh %v : f32
      loops.yield %t : f32
    } : f32
    %aa = elem.mul %l, %r : f32
    %bb = elem.mul %aa, %u : f32
    %cc = elem.convert %bb : f32 to bf16
    loops.store %cc, %o[%i] : tensor<4xbf16>
  }
  func.return %y, %z, %w : tensor<4xbf16>, tensor<4xf32>, tensor<4xi32>
}

// -----

// Errors add up: of four factors off by 2.7e-4 a quarter of a unit of bf16 has room for three.
// CHECK:      func.func @main
// CHECK-COUNT-3: precision bf16
// CHECK-NOT:  precision
func.func @main(%x : tensor<4xf32>) -> tensor<4xbf16> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xbf16>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.erfc %a : f32
    %c = elem.abs %a : f32
    %d = elem.erfc %c : f32
    %e = elem.mul %b, %d : f32
    %f = elem.neg %c : f32
    %g = elem.erfc %f : f32
    %h = elem.mul %e, %g : f32
    %k = elem.mul %c, %c : f32
    %l = elem.erfc %k : f32
    %m = elem.mul %h, %l : f32
    %p = elem.convert %m : f32 to bf16
    loops.store %p, %o[%i] : tensor<4xbf16>
  }
  func.return %y : tensor<4xbf16>
}

// -----

// Nothing is marked in f64, and a function that has no approximation is not.
// CHECK:      func.func @main
// CHECK-NOT:  precision
// CHECK:      func.return
func.func @main(%x : tensor<f64>, %z : tensor<0xf32>) -> (tensor<f16>, tensor<0xbf16>) {
  %y = loops.nest () outs(%o : tensor<f16>) {
    %a = loops.load %x[] : tensor<f64>
    %b = elem.exp %a : f64
    %c = elem.convert %b : f64 to f16
    loops.store %c, %o[] : tensor<f16>
  }
  %w = loops.nest (%i : 0) outs(%o : tensor<0xbf16>) {
    %a = loops.load %z[%i] : tensor<0xf32>
    %b = elem.log %a : f32
    %c = elem.convert %b : f32 to bf16
    loops.store %c, %o[%i] : tensor<0xbf16>
  }
  func.return %y, %w : tensor<f16>, tensor<0xbf16>
}

// -----

// Near miss: others get the greatest of what is rounded, and may compute all of it again to ask which that was.
// CHECK:      func.func @main
// CHECK:        loops.reduce maximum
// CHECK:          elem.exp %b : f32{{$}}
func.func @main(%x : tensor<4x8xbf16>) -> tensor<4xbf16> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xbf16>) {
    %m = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      %c = elem.exp %b : f32
      %d = elem.convert %c : f32 to bf16
      %e = elem.convert %d : bf16 to f32
      loops.yield %e : f32
    } : f32
    %n = elem.convert %m : f32 to bf16
    loops.store %n, %o[%i] : tensor<4xbf16>
  }
  func.return %y : tensor<4xbf16>
}
