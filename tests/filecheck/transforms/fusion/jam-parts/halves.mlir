// RUN: cuesta-opt %s -p "jam-parts" --split-input-file
// The gradient of a gated linear unit: what both halves take of one input is computed once, and not stored before.

// CHECK:      func.func @main
// CHECK-NOT:  %s = loops.nest
// CHECK:      %y = loops.nest (%i : 4, %j : 32) outs(%o: tensor<4x64xf32>)
// CHECK-COUNT-1: elem.sigmoid
// CHECK-NOT:    elem.sigmoid
// CHECK:        loops.store %{{.+}}, %o[%i, %j] : tensor<4x64xf32>
// CHECK:        loops.store %{{.+}}, %o[%i, %j + 32] : tensor<4x64xf32>
// CHECK:      func.return
func.func @main(%x : tensor<4x64xf32>, %g : tensor<4x32xf32>) -> tensor<4x64xf32> {
  %s = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %a = loops.load %x[%i, %j + 32] : tensor<4x64xf32>
    %b = elem.sigmoid %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x32xf32>
  }
  %y = loops.nest (%i : 4, %j : 64) outs(%o : tensor<4x64xf32>) {
    %zero = elem.constant 0.0 : f32
    %one = elem.constant 1.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 32 : i64
    %second = elem.ge %n, %half : i64
    %s1 = loops.load %s[%i, %j - 32] if %second else %zero : tensor<4x32xf32>
    %t = elem.sub %one, %s1 : f32
    %u = elem.mul %t, %s1 : f32
    %x1 = loops.load %x[%i, %j - 32] if %second else %zero : tensor<4x64xf32>
    %v = elem.mul %u, %x1 : f32
    %g1 = loops.load %g[%i, %j - 32] if %second else %zero : tensor<4x32xf32>
    %w = elem.mul %v, %g1 : f32
    %w1 = elem.select %second, %w, %zero : f32
    %first = elem.lt %n, %half : i64
    %s0 = loops.load %s[%i, %j] if %first else %zero : tensor<4x32xf32>
    %g0 = loops.load %g[%i, %j] if %first else %zero : tensor<4x32xf32>
    %r = elem.mul %s0, %g0 : f32
    %q = elem.select %first, %r, %w1 : f32
    loops.store %q, %o[%i, %j] : tensor<4x64xf32>
  }
  func.return %y : tensor<4x64xf32>
}

// -----
// Padded and added: no part is without the other's zero. The first axis is one that only a call knows.

// CHECK:      %y = loops.nest (%i : s0, %j : 16) outs
// CHECK-COUNT-1: loops.load %g
// CHECK-NOT:    loops.load %g
// CHECK:      func.return
func.func @main(%x : tensor<?x32xf32, #aten.layout<sizes = [s0, 32]>>, %g : tensor<?x16xf32, #aten.layout<sizes = [s0, 16]>>) -> tensor<?x32xf32, #aten.layout<sizes = [s0, 32]>> attributes {sym.symbols = #sym.symbols<s0 in [0, 40]>} {
  %y = loops.nest (%i : s0, %j : 32) outs(%o : tensor<?x32xf32, #aten.layout<sizes = [s0, 32]>>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %first = elem.lt %n, %half : i64
    %x1 = loops.load %x[%i, %j + 16] if %first else %zero : tensor<?x32xf32, #aten.layout<sizes = [s0, 32]>>
    %g0 = loops.load %g[%i, %j] if %first else %zero : tensor<?x16xf32, #aten.layout<sizes = [s0, 16]>>
    %a = elem.mul %x1, %g0 : f32
    %a1 = elem.select %first, %a, %zero : f32
    %second = elem.not %first : i1
    %x0 = loops.load %x[%i, %j - 16] if %second else %zero : tensor<?x32xf32, #aten.layout<sizes = [s0, 32]>>
    %g1 = loops.load %g[%i, %j - 16] if %second else %zero : tensor<?x16xf32, #aten.layout<sizes = [s0, 16]>>
    %b = elem.mul %x0, %g1 : f32
    %b1 = elem.select %second, %b, %zero : f32
    %c = elem.add %a1, %b1 : f32
    loops.store %c, %o[%i, %j] : tensor<?x32xf32, #aten.layout<sizes = [s0, 32]>>
  }
  func.return %y : tensor<?x32xf32, #aten.layout<sizes = [s0, 32]>>
}

// -----
// Element by element: what is even takes of one, what is odd of the other.

// CHECK:      %y = loops.nest (%i : 4, %j : 16) outs
// CHECK-COUNT-1: elem.exp
// CHECK-NOT:    elem.exp
// CHECK:        loops.store %{{.+}}, %o[%i, %j * 2] : tensor<4x32xf32>
// CHECK:        loops.store %{{.+}}, %o[%i, %j * 2 + 1] : tensor<4x32xf32>
// CHECK:      func.return
func.func @main(%x : tensor<4x16xf32>) -> tensor<4x32xf32> {
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %none = elem.constant 0 : i64
    %n = loops.index [%j mod 2] : i64
    %even = elem.eq %n, %none : i64
    %a = loops.load %x[%i, %j floordiv 2] if %even else %zero : tensor<4x16xf32>
    %a1 = elem.exp %a : f32
    %odd = elem.ne %n, %none : i64
    %b = loops.load %x[%i, %j floordiv 2] if %odd else %zero : tensor<4x16xf32>
    %b1 = elem.exp %b : f32
    %b2 = elem.neg %b1 : f32
    %c = elem.select %even, %a1, %b2 : f32
    loops.store %c, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %y : tensor<4x32xf32>
}

// -----
// Three parts, of which two make one: quarters and thirds are tried after halves, along the first axis.

// CHECK:      %y = loops.nest (%i : 5, %j : 8) outs
// CHECK-COUNT-1: elem.exp
// CHECK-NOT:    elem.exp
// CHECK-COUNT-3: loops.store
// CHECK:      func.return
func.func @main(%x : tensor<5x8xf32>) -> tensor<15x8xf32> {
  %e = loops.nest (%i : 5, %j : 8) outs(%o : tensor<5x8xf32>) {
    %a = loops.load %x[%i, %j] : tensor<5x8xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<5x8xf32>
  }
  %y = loops.nest (%i : 15, %j : 8) outs(%o : tensor<15x8xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%i] : i64
    %c = elem.constant 10 : i64
    %last = elem.ge %n, %c : i64
    %a = loops.load %e[%i - 10, %j] if %last else %zero : tensor<5x8xf32>
    %d = elem.constant 5 : i64
    %first = elem.lt %n, %d : i64
    %b = loops.load %e[%i, %j] if %first else %a : tensor<5x8xf32>
    loops.store %b, %o[%i, %j] : tensor<15x8xf32>
  }
  func.return %y : tensor<15x8xf32>
}

// -----
// What a part looks up may be out of range: it is still asked, and only there.

// CHECK:      %y = loops.nest (%i : 16) outs
// CHECK:        loops.bound
// CHECK-NOT:    loops.bound
// CHECK:      func.return
func.func @main(%x : tensor<16xf32>, %k : tensor<16xi64>, %w : tensor<9xf32>) -> tensor<32xf32> {
  %y = loops.nest (%i : 32) outs(%o : tensor<32xf32>) {
    %zero = elem.constant 0.0 : f32
    %none = elem.constant 0 : i64
    %n = loops.index [%i] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %a = loops.load %x[%i - 16] if %second else %zero : tensor<16xf32>
    %p = loops.load %k[%i - 16] if %second else %none : tensor<16xi64>
    %q = elem.select %second, %p, %none : i64
    %r = loops.bound %q, 9 wrap : i64
    %b = loops.load %w[%r] if %second else %zero : tensor<9xf32>
    %c = elem.mul %a, %b : f32
    %first = elem.lt %n, %half : i64
    %d = loops.load %x[%i] if %first else %zero : tensor<16xf32>
    %e = elem.select %first, %d, %c : f32
    loops.store %e, %o[%i] : tensor<32xf32>
  }
  func.return %y : tensor<32xf32>
}
