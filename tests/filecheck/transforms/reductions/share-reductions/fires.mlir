// RUN: cuesta-opt %s -p "share-reductions" --split-input-file

// Each part is reduced once; what the first parts come to is taken as it was joined, and the new part is put beside it.
// CHECK-DAG:  %[[A:[0-9]+]] = loops.nest (%c : 2)
// CHECK:      %[[B:[0-9]+]] = loops.nest (%c : 3)
// CHECK:      %[[X:[0-9]+]] = loops.nest (%{{[0-9]+}} : 5)
// CHECK:      %r = loops.nest (%c : 5)
// CHECK-NEXT:   %s = loops.load %[[X]][%c]
// CHECK:      %[[C:[0-9]+]] = loops.nest (%c : 4)
// CHECK-NEXT:   {{.*}}loops.reduce sum
// CHECK:      %[[Y:[0-9]+]] = loops.nest (%{{[0-9]+}} : 9)
// CHECK:        loops.load %[[C]][%{{[0-9]+}} - 5] if
// CHECK:        loops.load %[[X]][%{{[0-9]+}}] if
// CHECK:      %t = loops.nest (%c : 9)
// CHECK-NEXT:   %s = loops.load %[[Y]][%c]
// CHECK-NOT:  loops.reduce
// CHECK:      func.return
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

// Of a norm, the mean is reduced with what is about it; its points are a nest of their own.
// CHECK:      loops.nest (%c : 2) outs(%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<2xf32>) {
// CHECK:        loops.reduce sum
// CHECK:        loops.reduce sum
// CHECK:      loops.nest (%c : 3) outs(%{{.*}}: tensor<3xf32>, %{{.*}}: tensor<3xf32>) {
// CHECK:      %m, %{{.*}} = loops.nest (%c : 5)
// CHECK-NOT:    loops.reduce
// CHECK:      %u = loops.nest (%{{.*}} : 2, %c : 5, %{{.*}} : 8)
// CHECK:      loops.nest (%c : 4) outs(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>) {
// CHECK:      %n, %{{.*}} = loops.nest (%c : 9)
// CHECK-NOT:    loops.reduce
// CHECK:      %v = loops.nest (%{{.*}} : 2, %c : 9, %{{.*}} : 8)
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1, cache_cost = 1.0>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<2x5x8xf32>, tensor<5xf32>, tensor<2x9x8xf32>, tensor<9xf32>) {
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
  %u, %m = loops.nest (%c : 5) outs(%o : tensor<2x5x8xf32>, %q : tensor<5xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    %n = elem.constant 16.0 : f32
    %mean = elem.div %s, %n : f32
    %ss = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      %d = elem.sub %v, %mean : f32
      %e = elem.mul %d, %d : f32
      loops.yield %e : f32
    } : f32
    loops.store %mean, %q[%c] : tensor<5xf32>
    loops.for (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      %d = elem.sub %v, %mean : f32
      %e = elem.mul %d, %ss : f32
      loops.store %e, %o[%b, %c, %p] : tensor<2x5x8xf32>
    }
  }
  %v, %n = loops.nest (%c : 9) outs(%o : tensor<2x9x8xf32>, %q : tensor<9xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    %n = elem.constant 16.0 : f32
    %mean = elem.div %s, %n : f32
    %ss = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      %d = elem.sub %v, %mean : f32
      %e = elem.mul %d, %d : f32
      loops.yield %e : f32
    } : f32
    loops.store %mean, %q[%c] : tensor<9xf32>
    loops.for (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      %d = elem.sub %v, %mean : f32
      %e = elem.mul %d, %ss : f32
      loops.store %e, %o[%b, %c, %p] : tensor<2x9x8xf32>
    }
  }
  func.return %u, %m, %v, %n : tensor<2x5x8xf32>, tensor<5xf32>, tensor<2x9x8xf32>, tensor<9xf32>
}
}

// -----

// A concatenation of a concatenation; and a nest that reduces a part as it is.
// CHECK:      %[[A:[0-9]+]] = loops.nest (%c : 2)
// CHECK-NEXT:   {{.*}}loops.reduce maximum
// CHECK:      %q = loops.nest (%c : 2)
// CHECK-NEXT:   %s = loops.load %[[A]][%c]
// CHECK:      loops.nest (%c : 3)
// CHECK-NEXT:   {{.*}}loops.reduce maximum
// CHECK:      %r = loops.nest (%c : 5)
// CHECK:      loops.nest (%c : 4)
// CHECK-NEXT:   {{.*}}loops.reduce maximum
// CHECK:      %t = loops.nest (%c : 9)
// CHECK-NOT:  loops.reduce
// CHECK:      func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%x0 : tensor<2x2x8xf32>, %x1 : tensor<2x3x8xf32>, %x2 : tensor<2x4x8xf32>) -> (tensor<2xf32>, tensor<5xf32>, tensor<9xf32>) {
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
    %k1 = elem.constant 5 : i64
    %g1 = elem.ge %n, %k1 : i64
    %v1 = loops.load %x2[%i0, %i1 - 5, %i2] if %g1 else %z : tensor<2x4x8xf32>
    %e0 = elem.constant 5 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %x[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x5x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x9x8xf32>
  }
  %q = loops.nest (%c : 2) outs(%o : tensor<2xf32>) {
    %s = loops.reduce maximum (%b : 2, %p : 8) {
      %v = loops.load %x0[%b, %c, %p] : tensor<2x2x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<2xf32>
  }
  %r = loops.nest (%c : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce maximum (%b : 2, %p : 8) {
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
  func.return %q, %r, %t : tensor<2xf32>, tensor<5xf32>, tensor<9xf32>
}
}

// -----

// CHECK:     loops.reduce argmax
// CHECK:     loops.reduce argmax
// CHECK:     %r = loops.nest (%c : 5)
// CHECK:     loops.reduce argmax
// CHECK:     %t = loops.nest (%c : 9)
// CHECK-NOT: loops.reduce
// CHECK:     func.return
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
    %s, %k = loops.reduce argmax (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32, i64
    loops.store %k, %o[%c] : tensor<5xi64>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xi64>) {
    %s, %k = loops.reduce argmax (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32, i64
    loops.store %k, %o[%c] : tensor<9xi64>
  }
  func.return %r, %t : tensor<5xi64>, tensor<9xi64>
}
}

// -----

// CHECK:     loops.reduce welford
// CHECK:     loops.reduce welford
// CHECK:     %r = loops.nest (%c : 5)
// CHECK:     loops.reduce welford
// CHECK:     %t = loops.nest (%c : 9)
// CHECK-NOT: loops.reduce
// CHECK:     func.return
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
    %s, %k = loops.reduce welford (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32, f32
    %q = elem.add %s, %k : f32
    loops.store %q, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s, %k = loops.reduce welford (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32, f32
    %q = elem.add %s, %k : f32
    loops.store %q, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// CHECK:     loops.reduce minimum
// CHECK:     loops.reduce minimum
// CHECK:     %r = loops.nest (%c : 5)
// CHECK:     loops.reduce minimum
// CHECK:     %t = loops.nest (%c : 9)
// CHECK-NOT: loops.reduce
// CHECK:     func.return
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
    %s = loops.reduce minimum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce minimum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// CHECK:     loops.reduce prod
// CHECK:     loops.reduce prod
// CHECK:     %r = loops.nest (%c : 5)
// CHECK:     loops.reduce prod
// CHECK:     %t = loops.nest (%c : 9)
// CHECK-NOT: loops.reduce
// CHECK:     func.return
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
    %s = loops.reduce prod (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x5x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<5xf32>
  }
  %t = loops.nest (%c : 9) outs(%o : tensor<9xf32>) {
    %s = loops.reduce prod (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x9x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<9xf32>
  }
  func.return %r, %t : tensor<5xf32>, tensor<9xf32>
}
}

// -----

// Many parts, written one after another.
// CHECK-COUNT-5: loops.nest (%c : 2)
// CHECK:         %[[X:[0-9]+]] = loops.nest () outs
// CHECK-COUNT-5: loops.for (%{{[0-9]+}} : 2)
// CHECK:         %r = loops.nest (%c : 10)
// CHECK:         loops.nest (%c : 2)
// CHECK:         loops.load %[[X]]
// CHECK:         %t = loops.nest (%c : 12)
// CHECK-NOT:     loops.reduce
// CHECK:         func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<waking = 1>} {
func.func @main(%p0 : tensor<2x2x8xf32>, %p1 : tensor<2x2x8xf32>, %p2 : tensor<2x2x8xf32>, %p3 : tensor<2x2x8xf32>, %p4 : tensor<2x2x8xf32>, %p5 : tensor<2x2x8xf32>) -> (tensor<10xf32>, tensor<12xf32>) {
  %x = loops.nest (%i0 : 2, %i2 : 8) outs(%o : tensor<2x10x8xf32>) {
    loops.for (%c : 2) {
      %v = loops.load %p0[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c, %i2] : tensor<2x10x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p1[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 2, %i2] : tensor<2x10x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p2[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 4, %i2] : tensor<2x10x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p3[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 6, %i2] : tensor<2x10x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p4[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 8, %i2] : tensor<2x10x8xf32>
    }
  }
  %y = loops.nest (%i0 : 2, %i2 : 8) outs(%o : tensor<2x12x8xf32>) {
    loops.for (%c : 2) {
      %v = loops.load %p0[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p1[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 2, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p2[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 4, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p3[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 6, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p4[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 8, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p5[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 10, %i2] : tensor<2x12x8xf32>
    }
  }
  %r = loops.nest (%c : 10) outs(%o : tensor<10xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %x[%b, %c, %p] : tensor<2x10x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<10xf32>
  }
  %t = loops.nest (%c : 12) outs(%o : tensor<12xf32>) {
    %s = loops.reduce sum (%b : 2, %p : 8) {
      %v = loops.load %y[%b, %c, %p] : tensor<2x12x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<12xf32>
  }
  func.return %r, %t : tensor<10xf32>, tensor<12xf32>
}
}
