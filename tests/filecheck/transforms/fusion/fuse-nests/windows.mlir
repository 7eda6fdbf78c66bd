// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// On a GPU windows that overlap compute a little again: their elements are loaded again in any case.
// CHECK:      func.func @main
// CHECK-NEXT:   %p = loops.nest (%n : 4, %c : 64, %y : 16, %z : 16)
// CHECK-NEXT:     loops.reduce maximum (%i : 3, %j : 3) {
// CHECK-NEXT:       loops.load %x[%n, %c, %y * 2 + %i, %z * 2 + %j]
func.func @main(%x : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%n : 4, %c : 64, %y : 33, %z : 33) outs(%o : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%n, %c, %y, %z] : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>
    %u = loops.load %b[%c] : tensor<64xf32, #aten.layout<device = "cuda:0">>
    %a = elem.add %v, %u : f32
    %zero = elem.constant 0.0 : f32
    %g = elem.gt %a, %zero : f32
    %w = elem.select %g, %a, %zero : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>
  }
  %p = loops.nest (%n : 4, %c : 64, %y : 16, %z : 16) outs(%o : tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce maximum (%i : 3, %j : 3) {
      %v = loops.load %t[%n, %c, %y * 2 + %i, %z * 2 + %j] : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y, %z] : tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %p : tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: two large tensors would be loaded again, instead of one.
// CHECK: %t = loops.nest
// CHECK: %p = loops.nest
func.func @main(%x : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64xf32, #aten.layout<device = "cuda:0">>, %r : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%n : 4, %c : 64, %y : 33, %z : 33) outs(%o : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%n, %c, %y, %z] : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>
    %u = loops.load %b[%c] : tensor<64xf32, #aten.layout<device = "cuda:0">>
    %q = loops.load %r[%n, %c, %y, %z] : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>
    %w = elem.add %v, %q : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>
  }
  %p = loops.nest (%n : 4, %c : 64, %y : 16, %z : 16) outs(%o : tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce maximum (%i : 3, %j : 3) {
      %v = loops.load %t[%n, %c, %y * 2 + %i, %z * 2 + %j] : tensor<4x64x33x33xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y, %z] : tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %p : tensor<4x64x16x16xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: too much arithmetic.
// CHECK: %t = loops.nest
// CHECK: %p = loops.nest
func.func @main(%x : tensor<64x64x33x33xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64xf32, #aten.layout<device = "cuda:0">>) -> tensor<64x64x16x16xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%n : 64, %c : 64, %y : 33, %z : 33) outs(%o : tensor<64x64x33x33xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%n, %c, %y, %z] : tensor<64x64x33x33xf32, #aten.layout<device = "cuda:0">>
    %u = loops.load %b[%c] : tensor<64xf32, #aten.layout<device = "cuda:0">>
    %d = elem.exp %v : f32
    %e = elem.erf %d : f32
    %w = elem.erf %e : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<64x64x33x33xf32, #aten.layout<device = "cuda:0">>
  }
  %p = loops.nest (%n : 64, %c : 64, %y : 16, %z : 16) outs(%o : tensor<64x64x16x16xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce maximum (%i : 3, %j : 3) {
      %v = loops.load %t[%n, %c, %y * 2 + %i, %z * 2 + %j] : tensor<64x64x33x33xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y, %z] : tensor<64x64x16x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %p : tensor<64x64x16x16xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: on a CPU.
// CHECK: %t = loops.nest
// CHECK: %p = loops.nest
func.func @main(%x : tensor<4x64x33x33xf32>, %b : tensor<64xf32>) -> tensor<4x64x16x16xf32> {
  %t = loops.nest (%n : 4, %c : 64, %y : 33, %z : 33) outs(%o : tensor<4x64x33x33xf32>) {
    %v = loops.load %x[%n, %c, %y, %z] : tensor<4x64x33x33xf32>
    %u = loops.load %b[%c] : tensor<64xf32>
    %a = elem.add %v, %u : f32
    %zero = elem.constant 0.0 : f32
    %g = elem.gt %a, %zero : f32
    %w = elem.select %g, %a, %zero : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x64x33x33xf32>
  }
  %p = loops.nest (%n : 4, %c : 64, %y : 16, %z : 16) outs(%o : tensor<4x64x16x16xf32>) {
    %m = loops.reduce maximum (%i : 3, %j : 3) {
      %v = loops.load %t[%n, %c, %y * 2 + %i, %z * 2 + %j] : tensor<4x64x33x33xf32>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y, %z] : tensor<4x64x16x16xf32>
  }
  func.return %p : tensor<4x64x16x16xf32>
}
