// RUN: cuesta-opt %s -p "narrow-updates" --split-input-file

// Near misses: more than half of the elements; every second one; a mask in memory; a shifted element of the argument.
// CHECK-NOT: updates
func.func @main(%c : tensor<8xf32>, %d : tensor<8xf32>, %e : tensor<8xf32>, %f : tensor<8xf32>, %m : tensor<8xi1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {aten.writes_to = [0 : i64, 1 : i64, 2 : i64, 3 : i64]} {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = elem.constant 5 : i64
    %in = elem.lt %p, %a : i64
    %n = elem.constant 1.0 : f32
    %old = loops.load %c[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  %y2 = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i mod 2] : i64
    %a = elem.constant 0 : i64
    %in = elem.eq %p, %a : i64
    %n = elem.constant 1.0 : f32
    %old = loops.load %d[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  %y3 = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %in = loops.load %m[%i] : tensor<8xi1>
    %n = elem.constant 1.0 : f32
    %old = loops.load %e[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  %y4 = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = elem.constant 3 : i64
    %in = elem.lt %p, %a : i64
    %z = elem.constant 0.0 : f32
    %n = loops.load %f[%i + 1] if %in else %z : tensor<8xf32>
    %old = loops.load %f[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  func.return %y, %y2, %y3, %y4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Near misses: an argument that is read later; old elements in a part after another part; a second out.
// CHECK-NOT: updates
func.func @main(%c : tensor<8xf32>, %d : tensor<8xf32>, %e : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {aten.writes_to = [0 : i64, 1 : i64, 2 : i64]} {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = elem.constant 3 : i64
    %in = elem.lt %p, %a : i64
    %n = elem.constant 1.0 : f32
    %old = loops.load %c[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  %later = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %old = loops.load %c[%i] : tensor<8xf32>
    loops.store %old, %o[%i] : tensor<8xf32>
  }
  %y2 = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = elem.constant 2 : i64
    %b = elem.constant 1 : i64
    %first = elem.lt %p, %a : i64
    %second = elem.eq %p, %b : i64
    %n = elem.constant 1.0 : f32
    %old = loops.load %d[%i] : tensor<8xf32>
    %v = elem.select %first, %n, %old : f32
    %twice = elem.add %old, %old : f32
    %w = elem.select %second, %twice, %v : f32
    loops.store %w, %o[%i] : tensor<8xf32>
  }
  %y3, %other = loops.nest (%i : 8) outs(%o : tensor<8xf32>, %q : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = elem.constant 3 : i64
    %in = elem.lt %p, %a : i64
    %n = elem.constant 1.0 : f32
    %old = loops.load %e[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
    loops.store %old, %q[%i] : tensor<8xf32>
  }
  func.return %later, %other, %y, %y2, %y3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Near misses: no argument is written to; a place that may be outside.
// CHECK-NOT: updates
func.func @main(%s : !sym.int<s0>, %c : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {sym.symbols = #sym.symbols<s0 in [0, 127]>, aten.writes_to = [1 : i64]} {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = elem.constant 3 : i64
    %in = elem.lt %p, %a : i64
    %n = elem.constant 1.0 : f32
    %old = loops.load %c[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  %y2 = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %p = loops.index [%i] : i64
    %a = loops.index [s0] : i64
    %in = elem.eq %p, %a : i64
    %n = elem.constant 1.0 : f32
    %old = loops.load %c[%i] : tensor<8xf32>
    %v = elem.select %in, %n, %old : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  func.return %y, %y2 : tensor<8xf32>, tensor<8xf32>
}
