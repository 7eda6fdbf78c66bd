// RUN: cuesta-opt %s -p "nest-concatenations" --split-input-file

// Four parts are told apart by masks.
// CHECK: loops.load %p0[
// CHECK: loops.load %p0[
func.func @main(%p0 : tensor<2x2x8xf32>, %p1 : tensor<2x2x8xf32>, %p2 : tensor<2x2x8xf32>, %p3 : tensor<2x2x8xf32>, %p4 : tensor<2x2x8xf32>, %p5 : tensor<2x2x8xf32>, %p6 : tensor<2x2x8xf32>, %p7 : tensor<2x2x8xf32>) -> (tensor<2x6x8xf32>, tensor<2x8x8xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 6, %i2 : 8) outs(%o : tensor<2x6x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k2 = elem.constant 4 : i64
    %g2 = elem.ge %n, %k2 : i64
    %v2 = loops.load %p2[%i0, %i1 - 4, %i2] if %g2 else %z : tensor<2x2x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 4 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %p1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x2x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %p0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x6x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i1 : 8, %i2 : 8) outs(%o : tensor<2x8x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k3 = elem.constant 6 : i64
    %g3 = elem.ge %n, %k3 : i64
    %v3 = loops.load %p3[%i0, %i1 - 6, %i2] if %g3 else %z : tensor<2x2x8xf32>
    %k2 = elem.constant 4 : i64
    %g2 = elem.ge %n, %k2 : i64
    %e2 = elem.constant 6 : i64
    %l2 = elem.lt %n, %e2 : i64
    %m2 = elem.and %g2, %l2 : i1
    %v2 = loops.load %p2[%i0, %i1 - 4, %i2] if %m2 else %v3 : tensor<2x2x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 4 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %p1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x2x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %p0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x8x8xf32>
  }
  func.return %x, %y : tensor<2x6x8xf32>, tensor<2x8x8xf32>
}

// -----

// Of four, and nothing is computed with all five.
// CHECK: loops.load %p0[
// CHECK: loops.load %p0[
func.func @main(%p0 : tensor<2x2x8xf32>, %p1 : tensor<2x2x8xf32>, %p2 : tensor<2x2x8xf32>, %p3 : tensor<2x2x8xf32>, %p4 : tensor<2x2x8xf32>, %p5 : tensor<2x2x8xf32>, %p6 : tensor<2x2x8xf32>, %p7 : tensor<2x2x8xf32>) -> (tensor<2x8x8xf32>, tensor<2x10x8xf32>) {
  %x = loops.nest (%i0 : 2, %i1 : 8, %i2 : 8) outs(%o : tensor<2x8x8xf32>) {
    %z = elem.constant 0.0 : f32
    %n = loops.index [%i1] : i64
    %k3 = elem.constant 6 : i64
    %g3 = elem.ge %n, %k3 : i64
    %v3 = loops.load %p3[%i0, %i1 - 6, %i2] if %g3 else %z : tensor<2x2x8xf32>
    %k2 = elem.constant 4 : i64
    %g2 = elem.ge %n, %k2 : i64
    %e2 = elem.constant 6 : i64
    %l2 = elem.lt %n, %e2 : i64
    %m2 = elem.and %g2, %l2 : i1
    %v2 = loops.load %p2[%i0, %i1 - 4, %i2] if %m2 else %v3 : tensor<2x2x8xf32>
    %k1 = elem.constant 2 : i64
    %g1 = elem.ge %n, %k1 : i64
    %e1 = elem.constant 4 : i64
    %l1 = elem.lt %n, %e1 : i64
    %m1 = elem.and %g1, %l1 : i1
    %v1 = loops.load %p1[%i0, %i1 - 2, %i2] if %m1 else %v2 : tensor<2x2x8xf32>
    %e0 = elem.constant 2 : i64
    %l0 = elem.lt %n, %e0 : i64
    %v0 = loops.load %p0[%i0, %i1, %i2] if %l0 else %v1 : tensor<2x2x8xf32>
    loops.store %v0, %o[%i0, %i1, %i2] : tensor<2x8x8xf32>
  }
  %y = loops.nest (%i0 : 2, %i2 : 8) outs(%o : tensor<2x10x8xf32>) {
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
  func.return %x, %y : tensor<2x8x8xf32>, tensor<2x10x8xf32>
}

// -----

// Others come first.
// CHECK: loops.load %p0[
// CHECK: loops.load %p0[
func.func @main(%p0 : tensor<2x2x8xf32>, %p1 : tensor<2x2x8xf32>, %p2 : tensor<2x2x8xf32>, %p3 : tensor<2x2x8xf32>, %p4 : tensor<2x2x8xf32>, %p5 : tensor<2x2x8xf32>, %p6 : tensor<2x2x8xf32>, %p7 : tensor<2x2x8xf32>) -> (tensor<2x10x8xf32>, tensor<2x12x8xf32>) {
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
      %v = loops.load %p5[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p0[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 2, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p1[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 4, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p2[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 6, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p3[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 8, %i2] : tensor<2x12x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p4[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 10, %i2] : tensor<2x12x8xf32>
    }
  }
  func.return %x, %y : tensor<2x10x8xf32>, tensor<2x12x8xf32>
}

// -----

// Too many are left.
// CHECK: loops.load %p0[
// CHECK: loops.load %p0[
func.func @main(%p0 : tensor<2x2x8xf32>, %p1 : tensor<2x2x8xf32>, %p2 : tensor<2x2x8xf32>, %p3 : tensor<2x2x8xf32>, %p4 : tensor<2x2x8xf32>, %p5 : tensor<2x2x8xf32>, %p6 : tensor<2x2x8xf32>, %p7 : tensor<2x2x8xf32>, %p8 : tensor<2x2x8xf32>, %p9 : tensor<2x2x8xf32>) -> (tensor<2x10x8xf32>, tensor<2x20x8xf32>) {
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
  %y = loops.nest (%i0 : 2, %i2 : 8) outs(%o : tensor<2x20x8xf32>) {
    loops.for (%c : 2) {
      %v = loops.load %p0[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p1[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 2, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p2[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 4, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p3[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 6, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p4[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 8, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p5[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 10, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p6[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 12, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p7[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 14, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p8[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 16, %i2] : tensor<2x20x8xf32>
    }
    loops.for (%c : 2) {
      %v = loops.load %p9[%i0, %c, %i2] : tensor<2x2x8xf32>
      loops.store %v, %o[%i0, %c + 18, %i2] : tensor<2x20x8xf32>
    }
  }
  func.return %x, %y : tensor<2x10x8xf32>, tensor<2x20x8xf32>
}
