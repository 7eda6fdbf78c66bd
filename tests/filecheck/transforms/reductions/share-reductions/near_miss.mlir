// RUN: cuesta-opt %s -p "share-reductions" --split-input-file

// The concatenated axis is reduced.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%b : 2) outs(%o : tensor<2xf32>) {
    %s = loops.reduce sum (%c : 5, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%b] : tensor<2xf32>
  }
  %t = loops.nest (%b : 2) outs(%o : tensor<2xf32>) {
    %s = loops.reduce sum (%c : 9, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%b] : tensor<2xf32>
  }
  func.return %r, %t : tensor<2xf32>, tensor<2xf32>
}
}

// -----

// Parts that only one nest reduces.
// CHECK-COUNT-2: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>) -> (tensor<5xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  func.return %r : tensor<5xf32>
}
}

// -----

// No part in common.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x3 : tensor<2x4x8xf32>, %x4 : tensor<2x5x8xf32>) -> (tensor<5xf32>, tensor<9xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 4 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x4[%i0, %i1 - 4, %i2] if %g1 else %z : tensor<2x5x8xf32>
    %e0 = elem.constant 4 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x3[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x4x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// Reduced in two ways.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<5xf32>, tensor<9xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce maximum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// Kernels more cost more than is saved.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 65536>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<5xf32>, tensor<9xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// Something else is read along the axis.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>, %w5 : tensor<5xf32>, %w9 : tensor<9xf32>) -> (tensor<5xf32>, tensor<9xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      %w = loops.load %w5[%c] : tensor<5xf32>
      %u = elem.mul %v, %w : f32
      loops.yield %u : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      %w = loops.load %w9[%c] : tensor<9xf32>
      %u = elem.mul %v, %w : f32
      loops.yield %u : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// The index along the axis is data.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<5xi64>, tensor<9xi64>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xi64>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      %k = elem.convert %v : f32 to i64
      %w = loops.index [%c] : i64
      %u = elem.mul %k, %w : i64
      loops.yield %u : i64
    } : i64
    loops.store %s, %o[%c] : tensor<5xi64>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xi64>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      %k = elem.convert %v : f32 to i64
      %w = loops.index [%c] : i64
      %u = elem.mul %k, %w : i64
      loops.yield %u : i64
    } : i64
    loops.store %s, %o[%c] : tensor<9xi64>
  }
  func.return %r, %t : tensor<5xi64>, tensor<9xi64>
}
}

// -----

// A part is converted.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xbf16>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<5xf32>, tensor<9xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %ha = elem.constant 0.0 : bf16
    %hb = loops.load %x0[%i0, %i1, %i2] if %l0 else %ha : tensor<2x2x8xbf16>
    %hc = elem.convert %hb : bf16 to f32
    %v0 = elem.select %l0, %hc, %v1 : f32
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %ha = elem.constant 0.0 : bf16
    %hb = loops.load %x0[%i0, %i1, %i2] if %l0 else %ha : tensor<2x2x8xbf16>
    %hc = elem.convert %hb : bf16 to f32
    %v0 = elem.select %l0, %hc, %v1 : f32
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// Zeros lie between two parts.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x1x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<5xf32>, tensor<9xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 1 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x1x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 1 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x1x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// A part is read from its second channel on.
// CHECK-COUNT-4: loops.nest
// CHECK-NOT: loops.nest
// CHECK: func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x3x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<5xf32>, tensor<9xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 5, %i2 : 8) outs(%o : tensor<2x5x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %g1 else %z : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1 + 1, %i2] if %l0 else %v1 : tensor<2x3x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x5x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 9, %i2 : 8) outs(%o : tensor<2x9x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 5 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %x2[%i0, %i1 - 5, %i2] if %g2 else %z : tensor<2x4x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 5 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %x1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x3x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x0[%i0, %i1 + 1, %i2] if %l0 else %v1 : tensor<2x3x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}
