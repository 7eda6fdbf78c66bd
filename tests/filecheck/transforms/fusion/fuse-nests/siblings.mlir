// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// Two statistics of one large tensor over the same rows: one nest reads it, row by row.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %b = loops.nest (%i : 32) outs(%o: tensor<32xf32>, %0: tensor<32xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 1024) {
// CHECK:          } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:     %1 = loops.reduce maximum (%2 : 1024) {
// CHECK:          } : f32
// CHECK-NEXT:     loops.store %1, %0[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %b
func.func @main(%x : tensor<32x1024xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  %a = loops.nest (%i : 32) outs(%o : tensor<32xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<32xf32>
  }
  %b = loops.nest (%i : 32) outs(%o : tensor<32xf32>) {
    %s = loops.reduce maximum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<32xf32>
  }
  func.return %a, %b : tensor<32xf32>, tensor<32xf32>
}

// -----

// What lies between uses the first: the merged nest stands where the second stood, or the second needs what is between.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 32)
// CHECK:        %c, %d = loops.extern "aten.sort.stable"
// CHECK:        %b = loops.nest (%i : 32)
func.func @main(%x : tensor<32x1024xf32>) -> (tensor<32xf32>, tensor<32xi64>, tensor<32xf32>) {
  %a = loops.nest (%i : 32) outs(%o : tensor<32xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<32xf32>
  }
  %c, %d = loops.extern "aten.sort.stable"(%a, stable = false) : (tensor<32xf32>) -> (tensor<32xf32>, tensor<32xi64>)
  %b = loops.nest (%i : 32) outs(%o : tensor<32xf32>) {
    %t = loops.load %c[%i] : tensor<32xf32>
    %s = loops.reduce maximum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
      loops.yield %v : f32
    } : f32
    %w = elem.mul %s, %t : f32
    loops.store %w, %o[%i] : tensor<32xf32>
  }
  func.return %a, %d, %b : tensor<32xf32>, tensor<32xi64>, tensor<32xf32>
}

// -----

// Two pointwise nests that share an input.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %b = loops.nest (%i : 32, %j : 1024) outs(%o: tensor<32x1024xf32>, %0: tensor<32x1024xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i, %j]
// CHECK-NEXT:     %w = elem.exp %v
// CHECK-NEXT:     loops.store %w, %o[%i, %j]
// CHECK-NEXT:     %1 = loops.load %x[%i, %j]
// CHECK-NEXT:     %2 = elem.tanh %1
// CHECK-NEXT:     loops.store %2, %0[%i, %j]
// CHECK-NEXT:   }
func.func @main(%x : tensor<32x1024xf32>) -> (tensor<32x1024xf32>, tensor<32x1024xf32>) {
  %a = loops.nest (%i : 32, %j : 1024) outs(%o : tensor<32x1024xf32>) {
    %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<32x1024xf32>
  }
  %b = loops.nest (%i : 32, %j : 1024) outs(%o : tensor<32x1024xf32>) {
    %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
    %w = elem.tanh %v : f32
    loops.store %w, %o[%i, %j] : tensor<32x1024xf32>
  }
  func.return %a, %b : tensor<32x1024xf32>, tensor<32x1024xf32>
}

// -----

// Near miss: a small tensor is in the cache anyway.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest
// CHECK:        %b = loops.nest
func.func @main(%x : tensor<3x8xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %a = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<3x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<3xf32>
  }
  %b = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<3x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<3xf32>
  }
  func.return %a, %b : tensor<3xf32>, tensor<3xf32>
}

// -----

// Near miss: rows and columns of one tensor are two domains.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 32)
// CHECK:        %b = loops.nest (%j : 1024)
func.func @main(%x : tensor<32x1024xf32>) -> (tensor<32xf32>, tensor<1024xf32>) {
  %a = loops.nest (%i : 32) outs(%o : tensor<32xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<32xf32>
  }
  %b = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce maximum (%i : 32) {
      %v = loops.load %x[%i, %j] : tensor<32x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %a, %b : tensor<32xf32>, tensor<1024xf32>
}

// -----

// Near miss: a large result would be kept across a library call.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest
// CHECK:        loops.extern
// CHECK:        %b = loops.nest
func.func @main(%x : tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  %a = loops.nest (%i : 256, %j : 256) outs(%o : tensor<256x256xf32>) {
    %v = loops.load %x[%i, %j] : tensor<256x256xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<256x256xf32>
  }
  %c = loops.extern "aten.mm.default"(%a, %a) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %b = loops.nest (%i : 256, %j : 256) outs(%o : tensor<256x256xf32>) {
    %v = loops.load %x[%i, %j] : tensor<256x256xf32>
    %w = elem.tanh %v : f32
    loops.store %w, %o[%i, %j] : tensor<256x256xf32>
  }
  func.return %c, %b : tensor<256x256xf32>, tensor<256x256xf32>
}

// -----

// Edge: symbolic sizes are taken to be large.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %b = loops.nest (%i : s0)
// CHECK-NOT:    loops.nest
func.func @main(%x : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>) -> (tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {
  %a = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  %b = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  func.return %a, %b : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>
}

// -----

// Two of three nests that read %x are computed by the last one, where they were read; it joins the first.
// CHECK:      func.func @main(%x: tensor<40000xf32>)
// CHECK:      %a, %b = loops.nest (%i : 40000) outs(%o: tensor<40000xf32>, %{{.*}}: tensor<40000xi1>) {
// CHECK:      func.return %a, %b
func.func @main(%x : tensor<40000xf32>) -> (tensor<40000xf32>, tensor<40000xi1>) {
  %a = loops.nest (%i : 40000) outs(%o : tensor<40000xf32>) {
    %l = loops.load %x[%i] : tensor<40000xf32>
    %e = elem.exp %l : f32
    loops.store %e, %o[%i] : tensor<40000xf32>
  }
  %m = loops.nest (%i : 40000) outs(%o : tensor<40000xi1>) {
    %l = loops.load %x[%i] : tensor<40000xf32>
    %c = elem.constant 1.0 : f32
    %e = elem.lt %l, %c : f32
    loops.store %e, %o[%i] : tensor<40000xi1>
  }
  %n = loops.nest (%i : 40000) outs(%o : tensor<40000xi1>) {
    %l = loops.load %x[%i] : tensor<40000xf32>
    %c = elem.constant -1.0 : f32
    %e = elem.gt %l, %c : f32
    loops.store %e, %o[%i] : tensor<40000xi1>
  }
  %b = loops.nest (%i : 40000) outs(%o : tensor<40000xi1>) {
    %p = loops.load %m[%i] : tensor<40000xi1>
    %q = loops.load %n[%i] : tensor<40000xi1>
    %e = elem.and %p, %q : i1
    loops.store %e, %o[%i] : tensor<40000xi1>
  }
  func.return %a, %b : tensor<40000xf32>, tensor<40000xi1>
}

// -----

// Near miss: %c becomes part of %a, which stands before its sibling %b, and %b needs the call of what %a gives.
// CHECK:      func.func @main
// CHECK:        %a, %c = loops.nest (%i : 256)
// CHECK:        %called = loops.extern pure "aten.sin.default"(%a)
// CHECK:        %b = loops.nest (%i : 256)
func.func @main(%x : tensor<256x1024xf32>) -> (tensor<256xf32>, tensor<256x1024xf32>) {
  %a = loops.nest (%i : 256) outs(%o : tensor<256xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<256x1024xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<256xf32>
  }
  %called = loops.extern pure "aten.sin.default"(%a) : (tensor<256xf32>) -> tensor<256xf32>
  %b = loops.nest (%i : 256) outs(%o : tensor<256xf32>) {
    %s = loops.reduce maximum (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<256x1024xf32>
      %t = loops.load %called[%i] : tensor<256xf32>
      %u = elem.mul %v, %t : f32
      loops.yield %u : f32
    } : f32
    loops.store %s, %o[%i] : tensor<256xf32>
  }
  %c = loops.nest (%i : 256) outs(%o : tensor<256x1024xf32>) {
    loops.for (%j : 1024) {
      %v = loops.load %x[%i, %j] : tensor<256x1024xf32>
      %t = loops.load %a[%i] : tensor<256xf32>
      %u = elem.sub %v, %t : f32
      loops.store %u, %o[%i, %j] : tensor<256x1024xf32>
    }
  }
  func.return %b, %c : tensor<256xf32>, tensor<256x1024xf32>
}
