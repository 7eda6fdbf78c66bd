// RUN: cuesta-opt %s -p "jam-parts" --split-input-file
// What is read is returned, too: it is stored where both parts are.

// CHECK:      %y, %e = loops.nest (%i : 4, %j : 16) outs
// CHECK-COUNT-1: elem.exp
// CHECK-NOT:    elem.exp
// CHECK-COUNT-3: loops.store
// CHECK:      func.return %y, %e
func.func @main(%x : tensor<4x16xf32>) -> (tensor<4x32xf32>, tensor<4x16xf32>) {
  %e = loops.nest (%i : 4, %j : 16) outs(%o : tensor<4x16xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x16xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x16xf32>
  }
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %e[%i, %j - 16] if %second else %zero : tensor<4x16xf32>
    %v1 = elem.neg %v : f32
    %first = elem.lt %n, %half : i64
    %w = loops.load %e[%i, %j] if %first else %zero : tensor<4x16xf32>
    %q = elem.select %first, %w, %v1 : f32
    loops.store %q, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %y, %e : tensor<4x32xf32>, tensor<4x16xf32>
}

// -----
// Of two results one is read by both parts, one by neither: that one is returned twice.

// CHECK:      %y, %f = loops.nest (%i : 4, %j : 16) outs
// CHECK-NOT:    loops.load %e
// CHECK-COUNT-3: loops.store
// CHECK-NOT:    loops.store
// CHECK:      func.return %f, %y, %f
func.func @main(%x : tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x32xf32>, tensor<4x16xf32>) {
  %e, %f = loops.nest (%i : 4, %j : 16) outs(%o : tensor<4x16xf32>, %p : tensor<4x16xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x16xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x16xf32>
    %c = elem.neg %a : f32
    loops.store %c, %p[%i, %j] : tensor<4x16xf32>
  }
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %e[%i, %j - 16] if %second else %zero : tensor<4x16xf32>
    %first = elem.lt %n, %half : i64
    %w = loops.load %e[%i, %j] if %first else %v : tensor<4x16xf32>
    loops.store %w, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %f, %y, %f : tensor<4x16xf32>, tensor<4x32xf32>, tensor<4x16xf32>
}

// -----
// What is read twice as long is read at two places of a point: each of its elements is computed at one of them.

// CHECK:      %y = loops.nest (%i : 4, %j : 16) outs(%o: tensor<4x32xf32>) {
// CHECK-COUNT-2: elem.exp
// CHECK-NOT:    elem.exp
// CHECK:      func.return
func.func @main(%x : tensor<4x32xf32>, %g : tensor<4x16xf32>) -> tensor<4x32xf32> {
  %e = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x32xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x32xf32>
  }
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %e[%i, %j - 16] if %second else %zero : tensor<4x32xf32>
    %h = loops.load %g[%i, %j - 16] if %second else %zero : tensor<4x16xf32>
    %v1 = elem.mul %v, %h : f32
    %first = elem.lt %n, %half : i64
    %w = loops.load %e[%i, %j + 16] if %first else %zero : tensor<4x32xf32>
    %k = loops.load %g[%i, %j] if %first else %zero : tensor<4x16xf32>
    %w1 = elem.mul %w, %k : f32
    %q = elem.select %first, %w1, %v1 : f32
    loops.store %q, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %y : tensor<4x32xf32>
}
