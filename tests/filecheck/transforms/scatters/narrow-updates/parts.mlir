// RUN: cuesta-opt %s -p "narrow-updates" --split-input-file
// ROUNDTRIP

// One place of a cache: what is computed for it only is computed for it only.
// CHECK:      %0 = loops.nest (%1 : 8, %2 : 128) outs(%3: tensor<8x128xf32>) {
// CHECK-NEXT:   %4 = loops.load %c[%1, %2]
// CHECK-NEXT:   loops.store %4, %3[%1, %2]
// CHECK-NEXT: }
// CHECK-NEXT: %y = loops.nest (%i : 8, %t : 1) outs(%1: tensor<8x128xf32>) updates(%0) {
// CHECK-NEXT:   %n = loops.load %x[%i]
// CHECK-NEXT:   %m = elem.neg %n
// CHECK-NEXT:   loops.scan (%2 : 1) {
// CHECK-NEXT:     loops.combine assign %m, %1[%i, %t + 10]
// CHECK-NEXT:   }
// CHECK-NEXT: }
func.func @main(%c : tensor<8x128xf32>, %x : tensor<8xf32>) -> tensor<8x128xf32> attributes {aten.writes_to = [0 : i64]} {
  %y = loops.nest (%i : 8, %t : 128) outs(%o : tensor<8x128xf32>) {
    %p = loops.index [%t] : i64
    %a = elem.constant 10 : i64
    %b = elem.constant 11 : i64
    %ge = elem.ge %p, %a : i64
    %lt = elem.gt %b, %p : i64
    %in = elem.and %ge, %lt : i1
    %z = elem.constant 0.0 : f32
    %n = loops.load %x[%i] if %in else %z : tensor<8xf32>
    %m = elem.neg %n : f32
    %old = loops.load %c[%i, %t] : tensor<8x128xf32>
    %v = elem.select %in, %m, %old : f32
    loops.store %v, %o[%i, %t] : tensor<8x128xf32>
  }
  func.return %y : tensor<8x128xf32>
}

// -----

// Two parts, one after the other; the first changes what is there, and the rows of a loop are axes, too.
// CHECK:      loops.nest (%{{.*}} : 8, %{{.*}} : 128) outs
// CHECK:      %[[FIRST:.*]] = loops.nest (%i : 8, %j : 3) outs(%[[O:.*]]: tensor<8x128xf32>) updates
// CHECK:        loops.load %[[O]][%i, %j + 4]
// CHECK:        elem.exp
// CHECK:        loops.combine assign
// CHECK:      %y = loops.nest (%i : 1, %j : 128) outs(%{{.*}}: tensor<8x128xf32>) updates(%[[FIRST]]) {
// CHECK-NEXT:   %n = loops.load %x[]
// CHECK:        loops.combine assign %n, %{{.*}}[%i + 2, %j]
func.func @main(%c : tensor<8x128xf32>, %x : tensor<f32>) -> tensor<8x128xf32> attributes {aten.writes_to = [0 : i64]} {
  %y = loops.nest (%i : 8) outs(%o : tensor<8x128xf32>) {
    %q = loops.index [%i] : i64
    %two = elem.constant 2 : i64
    %row = elem.eq %q, %two : i64
    %n = loops.load %x[] : tensor<f32>
    loops.for (%j : 128) {
      %p = loops.index [%j] : i64
      %a = elem.constant 3 : i64
      %b = elem.constant 6 : i64
      %gt = elem.gt %p, %a : i64
      %le = elem.le %p, %b : i64
      %in = elem.and %gt, %le : i1
      %old = loops.load %c[%i, %j] : tensor<8x128xf32>
      %e = elem.exp %old : f32
      %v = elem.select %in, %e, %old : f32
      %w = elem.select %row, %n, %v : f32
      loops.store %w, %o[%i, %j] : tensor<8x128xf32>
    }
  }
  func.return %y : tensor<8x128xf32>
}

// -----

// A place that only a call knows; and a part of a part.
// CHECK:      %{{.*}} = loops.nest (%i : 8, %t : 1) outs(%{{.*}}) updates
// CHECK:        loops.combine assign %n, %{{.*}}[%i, %t + s0]
// CHECK:      %z = loops.nest (%i : 2, %t : 1) outs(%{{.*}}) updates
// CHECK:        loops.combine assign %n, %{{.*}}[%i + 3, %t]
func.func @main(%s : !sym.int<s0>, %c : tensor<8x128xf32>, %d : tensor<8x128xf32>, %x : tensor<8xf32>) -> (tensor<8x128xf32>, tensor<8x128xf32>) attributes {sym.symbols = #sym.symbols<s0 in [0, 127]>, aten.writes_to = [1 : i64, 2 : i64]} {
  %y = loops.nest (%i : 8, %t : 128) outs(%o : tensor<8x128xf32>) {
    %p = loops.index [%t] : i64
    %a = loops.index [s0] : i64
    %in = elem.eq %p, %a : i64
    %n = loops.load %x[%i] : tensor<8xf32>
    %old = loops.load %c[%i, %t] : tensor<8x128xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i, %t] : tensor<8x128xf32>
  }
  %z = loops.nest (%i : 8, %t : 128) outs(%o : tensor<8x128xf32>) {
    %p = loops.index [%t] : i64
    %zero = elem.constant 0 : i64
    %in = elem.eq %p, %zero : i64
    %q = loops.index [%i] : i64
    %three = elem.constant 3 : i64
    %five = elem.constant 5 : i64
    %ge = elem.ge %q, %three : i64
    %lt = elem.lt %q, %five : i64
    %n = loops.load %x[%i] : tensor<8xf32>
    %old = loops.load %d[%i, %t] : tensor<8x128xf32>
    %u = elem.select %lt, %n, %old : f32
    %v = elem.select %ge, %u, %old : f32
    %w = elem.select %in, %v, %old : f32
    loops.store %w, %o[%i, %t] : tensor<8x128xf32>
  }
  func.return %y, %z : tensor<8x128xf32>, tensor<8x128xf32>
}

// -----

// A part of no elements is no part: it is changed for nothing, and nothing else is.
// CHECK:      loops.nest (%{{.*}} : 8) outs
// CHECK:      loops.nest (%i : 0) outs(%{{.*}}: tensor<8xf32>) updates
func.func @main(%c : tensor<8xf32>, %x : tensor<f32>) -> tensor<8xf32> attributes {aten.writes_to = [0 : i64]} {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = elem.constant 5 : i64
    %b = elem.constant 3 : i64
    %ge = elem.ge %p, %a : i64
    %lt = elem.lt %p, %b : i64
    %in = elem.and %ge, %lt : i1
    %n = loops.load %x[] : tensor<f32>
    %old = loops.load %c[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}
