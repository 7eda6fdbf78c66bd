// RUN: cuesta-opt %s --split-input-file -p elide-roundings,dce

// Rounded to bf16 or f16 and back: not rounded. Twice in a row: not at all.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xbf16>, %p: tensor<4xf16>) {
// CHECK-NEXT:     %a = loops.load %x[%i]
// CHECK-NEXT:     %b = elem.convert %a : bf16 to f32
// CHECK-NEXT:     %c = elem.exp %b
// CHECK-NEXT:     %h = elem.mul %c, %c
// CHECK-NEXT:     %k = elem.convert %h : f32 to bf16
// CHECK-NEXT:     %l = elem.convert %c : f32 to f16
// CHECK-NEXT:     loops.store %k, %o[%i]
// CHECK-NEXT:     loops.store %l, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xf16>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xbf16>, %p : tensor<4xf16>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    %e = elem.convert %d : bf16 to f32
    %f = elem.convert %e : f32 to f16
    %g = elem.convert %f : f16 to f32
    %h = elem.mul %g, %e : f32
    %k = elem.convert %h : f32 to bf16
    %l = elem.convert %g : f32 to f16
    loops.store %k, %o[%i] : tensor<4xbf16>
    loops.store %l, %p[%i] : tensor<4xf16>
  }
  func.return %y, %z : tensor<4xbf16>, tensor<4xf16>
}

// -----

// A rounded value that also reaches memory is rounded there.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xbf16>, %p: tensor<4xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i]
// CHECK-NEXT:     %b = elem.convert %a : f32 to bf16
// CHECK-NEXT:     loops.store %b, %o[%i]
// CHECK-NEXT:     loops.store %a, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xbf16>, %p : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.convert %a : f32 to bf16
    loops.store %b, %o[%i] : tensor<4xbf16>
    %c = elem.convert %b : bf16 to f32
    loops.store %c, %p[%i] : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xbf16>, tensor<4xf32>
}

// -----

// Near misses: a value that was never wider (bf16 to f32 to bf16 is left to others), f64 rounded to f32, integers that wrap
// or truncate, a value that went through memory, and one that another type is made of.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z, %u, %v = loops.nest (%i : 4) outs(%o: tensor<4xf64>, %p: tensor<4xi64>, %q: tensor<4xf64>, %r: tensor<4xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i]
// CHECK-NEXT:     %b = elem.convert %a : f64 to f32
// CHECK-NEXT:     %c = elem.convert %b : f32 to f64
// CHECK-NEXT:     loops.store %c, %o[%i]
// CHECK-NEXT:     %d = loops.load %k[%i]
// CHECK-NEXT:     %e = elem.convert %d : i64 to i8
// CHECK-NEXT:     %f = elem.convert %e : i8 to i64
// CHECK-NEXT:     loops.store %f, %p[%i]
// CHECK-NEXT:     %g = elem.convert %a : f64 to bf16
// CHECK-NEXT:     %h = elem.convert %g : bf16 to f64
// CHECK-NEXT:     loops.store %h, %q[%i]
// CHECK-NEXT:     %l = elem.convert %g : bf16 to f32
// CHECK-NEXT:     %m = elem.convert %l : f32 to i64
// CHECK-NEXT:     %n = elem.convert %m : i64 to f32
// CHECK-NEXT:     loops.store %n, %r[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z, %u, %v
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf64>, %k : tensor<4xi64>) -> (tensor<4xf64>, tensor<4xi64>, tensor<4xf64>, tensor<4xf32>) {
  %y, %z, %u, %v = loops.nest (%i : 4) outs(%o : tensor<4xf64>, %p : tensor<4xi64>, %q : tensor<4xf64>, %r : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf64>
    %b = elem.convert %a : f64 to f32
    %c = elem.convert %b : f32 to f64
    loops.store %c, %o[%i] : tensor<4xf64>
    %d = loops.load %k[%i] : tensor<4xi64>
    %e = elem.convert %d : i64 to i8
    %f = elem.convert %e : i8 to i64
    loops.store %f, %p[%i] : tensor<4xi64>
    %g = elem.convert %a : f64 to bf16
    %h = elem.convert %g : bf16 to f64
    loops.store %h, %q[%i] : tensor<4xf64>
    %l = elem.convert %g : bf16 to f32
    %m = elem.convert %l : f32 to i64
    %n = elem.convert %m : i64 to f32
    loops.store %n, %r[%i] : tensor<4xf32>
  }
  func.return %y, %z, %u, %v : tensor<4xf64>, tensor<4xi64>, tensor<4xf64>, tensor<4xf32>
}

// -----

// Rank 0, and inside of a reduction that may be empty.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest () outs(%o: tensor<f32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : s0) {
// CHECK-NEXT:       %a = loops.load %x[%j] : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:       loops.yield %a
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> tensor<f32> attributes {sym.symbols = #sym.symbols<s0 in [0, 64]>} {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : s0) {
      %a = loops.load %x[%j] : tensor<?xf32, #aten.layout<sizes = [s0]>>
      %b = elem.convert %a : f32 to f16
      %c = elem.convert %b : f16 to f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----

// Near miss: the nest reads back what it stored, and that is rounded; it is one number.
// CHECK:      func.func @main
// CHECK:          %c = elem.exp
// CHECK-NEXT:     %d = elem.convert %c : f32 to bf16
// CHECK-NEXT:     loops.store %d, %o[%i, %j]
// CHECK-NEXT:     %e = elem.convert %d : bf16 to f32
// CHECK-NEXT:     loops.yield %e
// CHECK:          elem.sub %h, %s
func.func @main(%x : tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4x8xbf16>, %p : tensor<4x8xbf16>) {
    %s = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      %c = elem.exp %b : f32
      %d = elem.convert %c : f32 to bf16
      loops.store %d, %o[%i, %j] : tensor<4x8xbf16>
      %e = elem.convert %d : bf16 to f32
      loops.yield %e : f32
    } : f32
    loops.for (%j : 8) {
      %g = loops.load %o[%i, %j] : tensor<4x8xbf16>
      %h = elem.convert %g : bf16 to f32
      %k = elem.sub %h, %s : f32
      %l = elem.convert %k : f32 to bf16
      loops.store %l, %p[%i, %j] : tensor<4x8xbf16>
    }
  }
  func.return %z : tensor<4x8xbf16>
}

// -----

// Near miss: a comparison with what another nest rounded; nothing in its nest becomes another number.
// CHECK:      func.func @main
// CHECK:        %c = elem.exp
// CHECK-NEXT:   %d = elem.convert %c : f32 to bf16
// CHECK-NEXT:   %e = elem.convert %d : bf16 to f32
// CHECK:        elem.eq %e, %n
// CHECK:        elem.convert %{{.*}} : f32 to bf16
// CHECK:        elem.neg
func.func @main(%x : tensor<4xbf16>, %m : tensor<4xbf16>) -> (tensor<4xi1>, tensor<4xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xi1>, %p : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    %e = elem.convert %d : bf16 to f32
    %l = loops.load %m[%i] : tensor<4xbf16>
    %n = elem.convert %l : bf16 to f32
    %q = elem.eq %e, %n : f32
    loops.store %q, %o[%i] : tensor<4xi1>
    %v = elem.sqrt %b : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %t = elem.neg %r : f32
    loops.store %t, %p[%i] : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xi1>, tensor<4xf32>
}

// -----

// A comparison with a constant is no such thing.
// CHECK:      func.func @main
// CHECK:        %v = elem.sqrt
// CHECK:        elem.gt %v, %one
func.func @main(%x : tensor<4xbf16>) -> tensor<4xi1> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi1>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %v = elem.sqrt %b : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %one = elem.constant 1.0 : f32
    %t = elem.gt %r, %one : f32
    loops.store %t, %o[%i] : tensor<4xi1>
  }
  func.return %y : tensor<4xi1>
}

// -----

// Nor is a comparison with what the value is made of: that was there before it.
// CHECK:      func.func @main
// CHECK:        %v = elem.mul %b, %d
// CHECK:        elem.gt %v, %f
func.func @main(%x : tensor<4xbf16>, %k : tensor<4xbf16>) -> tensor<4xi1> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi1>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %k[%i] : tensor<4xbf16>
    %d = elem.convert %c : bf16 to f32
    %v = elem.mul %b, %d : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %e = loops.load %k[%i] : tensor<4xbf16>
    %f = elem.convert %e : bf16 to f32
    %t = elem.gt %r, %f : f32
    loops.store %t, %o[%i] : tensor<4xi1>
  }
  func.return %y : tensor<4xi1>
}

// -----

// Near miss: something else that was read.
// CHECK:      func.func @main
// CHECK:        %r = elem.convert %{{.*}} : bf16 to f32
// CHECK-NEXT:   elem.gt %r, %d
func.func @main(%x : tensor<4xbf16>, %k : tensor<4xbf16>) -> tensor<4xi1> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi1>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %k[%i] : tensor<4xbf16>
    %d = elem.convert %c : bf16 to f32
    %v = elem.mul %b, %b : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %t = elem.gt %r, %d : f32
    loops.store %t, %o[%i] : tensor<4xi1>
  }
  func.return %y : tensor<4xi1>
}

// -----

// Near miss: another element of what it is made of.
// CHECK:      func.func @main
// CHECK:        %r = elem.convert %{{.*}} : bf16 to f32
// CHECK-NEXT:   elem.gt %r, %f
func.func @main(%x : tensor<4xbf16>, %k : tensor<4xbf16>) -> tensor<4xi1> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi1>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %k[%i] : tensor<4xbf16>
    %d = elem.convert %c : bf16 to f32
    %e = loops.load %k[3 - %i] : tensor<4xbf16>
    %f = elem.convert %e : bf16 to f32
    %v = elem.mul %b, %d : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %t = elem.gt %r, %f : f32
    loops.store %t, %o[%i] : tensor<4xi1>
  }
  func.return %y : tensor<4xi1>
}

// -----

// An integer is as near as f32 has it.
// CHECK:      %[[N:.*]] = loops.index
// CHECK-NEXT: %[[W:.*]] = elem.convert %[[N]] : i64 to f32
// CHECK-NEXT: elem.mul %[[W]], %[[W]]
func.func @main() -> tensor<600xf32> {
  %y = loops.nest (%i : 600) outs(%o : tensor<600xf32>) {
    %n = loops.index [%i] : i64
    %b = elem.convert %n : i64 to bf16
    %w = elem.convert %b : bf16 to f32
    %s = elem.mul %w, %w : f32
    loops.store %s, %o[%i] : tensor<600xf32>
  }
  func.return %y : tensor<600xf32>
}

// -----

// Near miss: others get the greatest of rounded numbers, and may ask which of those it was. Then all of them are rounded
// here, also the one that is stored.
// CHECK:      func.func @main
// CHECK:        loops.reduce maximum
// CHECK:          elem.convert %{{.*}} : bf16 to f32
// CHECK:        loops.for
// CHECK:          elem.convert %{{.*}} : bf16 to f32
// CHECK:          elem.convert %{{.*}} : f32 to bf16
// CHECK-NEXT:     elem.convert %{{.*}} : bf16 to f32
func.func @main(%x : tensor<4x8xbf16>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4x8xf32>) {
    %m = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      %c = elem.exp %b : f32
      %d = elem.convert %c : f32 to bf16
      %e = elem.convert %d : bf16 to f32
      loops.yield %e : f32
    } : f32
    loops.store %m, %o[%i] : tensor<4xf32>
    loops.for (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      %c = elem.exp %b : f32
      %d = elem.convert %c : f32 to bf16
      %e = elem.convert %d : bf16 to f32
      loops.store %e, %p[%i, %j] : tensor<4x8xf32>
    }
  }
  func.return %y, %z : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// Near miss: so it is where the greatest is rounded itself before it is stored, as that of a bf16 tensor is.
// CHECK:      func.func @main
// CHECK:        loops.reduce maximum
// CHECK:          %c = elem.exp
// CHECK-NEXT:     %d = elem.convert %c : f32 to bf16
// CHECK-NEXT:     %e = elem.convert %d : bf16 to f32
// CHECK-NEXT:     loops.yield %e
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

// -----

// Near miss: and what such numbers are read from, which somebody may compute again in full; and what is computed of the
// same numbers beside it (%w1), which may be kept to be compared. What is computed of others does not count.
// CHECK:      func.func @main
// CHECK:        %x1 = loops.nest
// CHECK:          %d = elem.convert %c : f32 to bf16
// CHECK-NEXT:     %e = elem.convert %d : bf16 to f32
// CHECK-NEXT:     elem.sin %e
// CHECK:        %w1 = loops.nest
// CHECK:          %d = elem.convert %c : f32 to bf16
// CHECK-NEXT:     %e = elem.convert %d : bf16 to f32
// CHECK-NEXT:     elem.sin %e
// CHECK:        %u1 = loops.nest
// CHECK:          %c = elem.exp
// CHECK-NEXT:     elem.sin %c
func.func @main(%x : tensor<4x8xbf16>, %u : tensor<4x8xbf16>) -> (tensor<4xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %x1 = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xbf16>) {
    %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    %e = elem.convert %d : bf16 to f32
    %f = elem.sin %e : f32
    %g = elem.convert %f : f32 to bf16
    loops.store %g, %o[%i, %j] : tensor<4x8xbf16>
  }
  %w1 = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xbf16>) {
    %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    %e = elem.convert %d : bf16 to f32
    %f = elem.sin %e : f32
    %g = elem.convert %f : f32 to bf16
    loops.store %g, %o[%i, %j] : tensor<4x8xbf16>
  }
  %u1 = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xbf16>) {
    %a = loops.load %u[%i, %j] : tensor<4x8xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    %e = elem.convert %d : bf16 to f32
    %f = elem.sin %e : f32
    %g = elem.convert %f : f32 to bf16
    loops.store %g, %o[%i, %j] : tensor<4x8xbf16>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xbf16>) {
    %m = loops.reduce maximum (%j : 8) {
      %a = loops.load %x1[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      loops.yield %b : f32
    } : f32
    %n = elem.convert %m : f32 to bf16
    loops.store %n, %o[%i] : tensor<4xbf16>
  }
  func.return %y, %w1, %u1 : tensor<4xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>
}

// -----

// Near miss: who computes the numbers again beside what was made of their greatest and of other tensors, in the nest of
// the greatest and in one of its own.
// CHECK:      func.func @main
// CHECK:        loops.reduce maximum
// CHECK:          %c = elem.exp
// CHECK-NEXT:     %d = elem.convert %c : f32 to bf16
// CHECK:        %r = loops.nest
// CHECK:          %d = elem.convert %c : f32 to bf16
// CHECK-NEXT:     %e = elem.convert %d : bf16 to f32
// CHECK:          elem.add %e
func.func @main(%x : tensor<4x8xbf16>, %w : tensor<4xbf16>, %v : tensor<4xbf16>) -> tensor<4x8xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xbf16>) {
    %m = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      %c = elem.exp %b : f32
      %d = elem.convert %c : f32 to bf16
      %e = elem.convert %d : bf16 to f32
      loops.yield %e : f32
    } : f32
    %p = loops.load %w[%i] : tensor<4xbf16>
    %q = elem.convert %p : bf16 to f32
    %n = elem.add %m, %q : f32
    %s = elem.convert %n : f32 to bf16
    loops.store %s, %o[%i] : tensor<4xbf16>
  }
  %z = loops.nest (%i : 4) outs(%o : tensor<4xbf16>) {
    %m = loops.load %y[%i] : tensor<4xbf16>
    %n = elem.convert %m : bf16 to f32
    %p = loops.load %v[%i] : tensor<4xbf16>
    %q = elem.convert %p : bf16 to f32
    %s = elem.mul %n, %q : f32
    %t = elem.convert %s : f32 to bf16
    loops.store %t, %o[%i] : tensor<4xbf16>
  }
  %r = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    %e = elem.convert %d : bf16 to f32
    %p = loops.load %w[%i] : tensor<4xbf16>
    %q = elem.convert %p : bf16 to f32
    %n = elem.add %e, %q : f32
    %s = elem.convert %n : f32 to bf16
    %u = elem.convert %s : bf16 to f32
    %k = loops.load %z[%i] : tensor<4xbf16>
    %l = elem.convert %k : bf16 to f32
    %g = elem.sub %l, %u : f32
    %h = elem.sqrt %g : f32
    loops.store %h, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %r : tensor<4x8xf32>
}

// -----

// Near miss: and who reads the greatest in 16 bits, and may compute again what it was taken of.
// CHECK:      func.func @main
// CHECK:        %z = loops.nest
// CHECK:          %d = elem.convert %c : f32 to bf16
// CHECK-NEXT:     %e = elem.convert %d : bf16 to f32
// CHECK:          elem.sub %{{.*}}, %e
func.func @main(%x : tensor<4x8xbf16>) -> tensor<4x8xbf16> {
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
  %z = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xbf16>) {
    %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    %e = elem.convert %d : bf16 to f32
    %m = loops.load %y[%i] : tensor<4xbf16>
    %n = elem.convert %m : bf16 to f32
    %f = elem.sub %n, %e : f32
    %g = elem.sqrt %f : f32
    %h = elem.convert %g : f32 to bf16
    loops.store %h, %o[%i, %j] : tensor<4x8xbf16>
  }
  func.return %z : tensor<4x8xbf16>
}

// -----

// A greatest that nobody reads does not count.
// CHECK:      func.func @main
// CHECK:        loops.for
// CHECK:          elem.exp
// CHECK-NEXT:     loops.store
func.func @main(%x : tensor<4x8xbf16>) -> tensor<4x8xf32> {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4x8xf32>) {
    %m = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      %c = elem.exp %b : f32
      %d = elem.convert %c : f32 to bf16
      %e = elem.convert %d : bf16 to f32
      loops.yield %e : f32
    } : f32
    loops.store %m, %o[%i] : tensor<4xf32>
    loops.for (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xbf16>
      %b = elem.convert %a : bf16 to f32
      %c = elem.exp %b : f32
      %d = elem.convert %c : f32 to bf16
      %e = elem.convert %d : bf16 to f32
      loops.store %e, %p[%i, %j] : tensor<4x8xf32>
    }
  }
  func.return %z : tensor<4x8xf32>
}

// -----

// Near miss: whole numbers are made of a rounded value, and one level more or less hangs on its last digit. Then all of
// the nest are rounded, as what else is made of it.
// CHECK:      func.func @main
// CHECK:        elem.convert %{{.*}} : f32 to bf16
// CHECK-NEXT:   %[[W:.*]] = elem.convert %{{.*}} : bf16 to f32
// CHECK-NEXT:   %[[M:.*]] = elem.mul %[[W]], %{{.*}}
// CHECK-NEXT:   elem.round %[[M]]
func.func @main(%x : tensor<4xbf16>) -> tensor<4xi8> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi8>) {
    %four = elem.constant 4.0 : f32
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %v = elem.sqrt %b : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %m = elem.mul %r, %four : f32
    %t = elem.round %m : f32
    %q = elem.convert %t : f32 to i8
    loops.store %q, %o[%i] : tensor<4xi8>
  }
  func.return %y : tensor<4xi8>
}

// -----

// Near miss: the same of floats of 8 bits, and of bits.
// CHECK:      func.func @main
// CHECK:        %r = elem.convert %{{.*}} : bf16 to f32
// CHECK-NEXT:   elem.convert %r : f32 to f8E4M3FN
// CHECK:      func.func @main
// CHECK:        %r = elem.convert %{{.*}} : bf16 to f32
// CHECK-NEXT:   elem.bitcast %r : f32 to i32
func.func @main(%x : tensor<4xbf16>) -> tensor<4xf8E4M3FN> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf8E4M3FN>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %v = elem.sqrt %b : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %q = elem.convert %r : f32 to f8E4M3FN
    loops.store %q, %o[%i] : tensor<4xf8E4M3FN>
  }
  func.return %y : tensor<4xf8E4M3FN>
}

// -----

func.func @main(%x : tensor<4xbf16>) -> tensor<4xi32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi32>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %v = elem.sqrt %b : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %q = elem.bitcast %r : f32 to i32
    loops.store %q, %o[%i] : tensor<4xi32>
  }
  func.return %y : tensor<4xi32>
}

// -----

// Whole numbers that are made of what nothing has rounded ask for nothing.
// CHECK:      func.func @main
// CHECK:        %v = elem.sqrt
// CHECK-NEXT:   %m = elem.mul %v, %v
// CHECK:        elem.round %b
func.func @main(%x : tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xi8>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xbf16>, %p : tensor<4xi8>) {
    %a = loops.load %x[%i] : tensor<4xbf16>
    %b = elem.convert %a : bf16 to f32
    %v = elem.sqrt %b : f32
    %w = elem.convert %v : f32 to bf16
    %r = elem.convert %w : bf16 to f32
    %m = elem.mul %r, %r : f32
    %n = elem.convert %m : f32 to bf16
    loops.store %n, %o[%i] : tensor<4xbf16>
    %t = elem.round %b : f32
    %q = elem.convert %t : f32 to i8
    loops.store %q, %p[%i] : tensor<4xi8>
  }
  func.return %y, %z : tensor<4xbf16>, tensor<4xi8>
}
