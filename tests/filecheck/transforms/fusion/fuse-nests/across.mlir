// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// On a GPU a nest that transposes stays apart from long rows, which would read its source element by element.
// CHECK:      %t = loops.nest
// CHECK:      %y, %z = loops.nest
// CHECK:        loops.reduce sum
func.func @main(%x : tensor<64x48xf32, #aten.layout<device = "cuda:0">>) -> tensor<48xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%i : 48, %j : 64) outs(%o : tensor<48x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%j, %i] : tensor<64x48xf32, #aten.layout<device = "cuda:0">>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
  }
  %y, %z = loops.nest (%i : 48) outs(%o : tensor<48xf32, #aten.layout<device = "cuda:0">>, %p : tensor<48x64xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%j : 64) {
      %v = loops.load %t[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 64) {
      %v = loops.load %t[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
      %w = elem.div %v, %s : f32
      loops.store %w, %p[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
    }
    loops.store %s, %o[%i] : tensor<48xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<48xf32, #aten.layout<device = "cuda:0">>
}

// -----

// The other way round: what is written row by row is transposed by a nest of its own.
// CHECK:      %y = loops.nest
// CHECK:      %t = loops.nest
func.func @main(%x : tensor<48x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<64x48xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 48) outs(%p : tensor<48x64xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%j : 64) {
      %v = loops.load %x[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 64) {
      %v = loops.load %x[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
      %w = elem.div %v, %s : f32
      loops.store %w, %p[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
    }
  }
  %t = loops.nest (%i : 64, %j : 48) outs(%o : tensor<64x48xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %y[%j, %i] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
    loops.store %v, %o[%i, %j] : tensor<64x48xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %t : tensor<64x48xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: columns, whose lanes lie along what is read.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 48)
// CHECK-NEXT:     loops.reduce sum (%j : 64) {
// CHECK-NEXT:       loops.load %x[%j, %i]
func.func @main(%x : tensor<64x48xf32, #aten.layout<device = "cuda:0">>) -> tensor<48xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%i : 48, %j : 64) outs(%o : tensor<48x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%j, %i] : tensor<64x48xf32, #aten.layout<device = "cuda:0">>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest (%i : 48) outs(%o : tensor<48xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%j : 64) {
      %v = loops.load %t[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<48xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<48xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: no long loops; tiles of both axes do it all.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 48, %j : 64)
// CHECK-NEXT:     loops.load %x[%j, %i]
func.func @main(%x : tensor<64x48xf32, #aten.layout<device = "cuda:0">>) -> tensor<48x64xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%i : 48, %j : 64) outs(%o : tensor<48x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%j, %i] : tensor<64x48xf32, #aten.layout<device = "cuda:0">>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest (%i : 48, %j : 64) outs(%o : tensor<48x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %t[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i, %j] : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<48x64xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Windows of 49 points that others read as well stay with lanes that share them: what transposes is another nest.
// CHECK:      func.func @main
// CHECK-NEXT:   %p = loops.nest
// CHECK:        %r, %q = loops.nest
func.func @main(%x : tensor<2x64x64x64xf32, #aten.layout<device = "cuda:0">>) -> (tensor<2x64x58x58xf32, #aten.layout<device = "cuda:0">>, tensor<2x64x58x58xf32, #aten.layout<strides = [215296, 1, 3712, 64], device = "cuda:0">>) {
  %p = loops.nest (%n : 2, %c : 64, %y : 58, %z : 58) outs(%o : tensor<2x64x58x58xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce maximum (%i : 7, %j : 7) {
      %v = loops.load %x[%n, %c, %y + %i, %z + %j] : tensor<2x64x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y, %z] : tensor<2x64x58x58xf32, #aten.layout<device = "cuda:0">>
  }
  %r, %q = loops.nest (%n : 2, %c : 64, %y : 58, %z : 58) outs(%o : tensor<2x64x58x58xf32, #aten.layout<device = "cuda:0">>, %l : tensor<2x64x58x58xf32, #aten.layout<strides = [215296, 1, 3712, 64], device = "cuda:0">>) {
    %v = loops.load %p[%n, %c, %y, %z] : tensor<2x64x58x58xf32, #aten.layout<device = "cuda:0">>
    %e = elem.exp %v : f32
    loops.store %e, %o[%n, %c, %y, %z] : tensor<2x64x58x58xf32, #aten.layout<device = "cuda:0">>
    loops.store %e, %l[%n, %c, %y, %z] : tensor<2x64x58x58xf32, #aten.layout<strides = [215296, 1, 3712, 64], device = "cuda:0">>
  }
  func.return %r, %q : tensor<2x64x58x58xf32, #aten.layout<device = "cuda:0">>, tensor<2x64x58x58xf32, #aten.layout<strides = [215296, 1, 3712, 64], device = "cuda:0">>
}

// -----

// Near miss: 9 loads of a point cost less than storing and reading it once more.
// CHECK:      func.func @main
// CHECK-NEXT:   %r, %q = loops.nest
// CHECK-NOT:    loops.nest
func.func @main(%x : tensor<2x64x64x64xf32, #aten.layout<device = "cuda:0">>) -> (tensor<2x64x62x62xf32, #aten.layout<device = "cuda:0">>, tensor<2x64x62x62xf32, #aten.layout<strides = [246016, 1, 3968, 64], device = "cuda:0">>) {
  %p = loops.nest (%n : 2, %c : 64, %y : 62, %z : 62) outs(%o : tensor<2x64x62x62xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce maximum (%i : 3, %j : 3) {
      %v = loops.load %x[%n, %c, %y + %i, %z + %j] : tensor<2x64x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y, %z] : tensor<2x64x62x62xf32, #aten.layout<device = "cuda:0">>
  }
  %r, %q = loops.nest (%n : 2, %c : 64, %y : 62, %z : 62) outs(%o : tensor<2x64x62x62xf32, #aten.layout<device = "cuda:0">>, %l : tensor<2x64x62x62xf32, #aten.layout<strides = [246016, 1, 3968, 64], device = "cuda:0">>) {
    %v = loops.load %p[%n, %c, %y, %z] : tensor<2x64x62x62xf32, #aten.layout<device = "cuda:0">>
    %e = elem.exp %v : f32
    loops.store %e, %o[%n, %c, %y, %z] : tensor<2x64x62x62xf32, #aten.layout<device = "cuda:0">>
    loops.store %e, %l[%n, %c, %y, %z] : tensor<2x64x62x62xf32, #aten.layout<strides = [246016, 1, 3968, 64], device = "cuda:0">>
  }
  func.return %r, %q : tensor<2x64x62x62xf32, #aten.layout<device = "cuda:0">>, tensor<2x64x62x62xf32, #aten.layout<strides = [246016, 1, 3968, 64], device = "cuda:0">>
}

// -----

// Statistics of rows whose neighbours lie together are of columns: nothing is stored for them in another layout.
// CHECK:      func.func @main
// CHECK-NEXT:   %s = loops.nest (%n : 4, %c : 64, %y : 64)
// CHECK-NEXT:     loops.reduce sum (%z : 64) {
// CHECK-NEXT:       loops.load %x[%n, %c, %y, %z]
// CHECK:        %p = loops.nest (%n : 4, %c : 64, %y : 64, %z : 64)
// CHECK-NEXT:     loops.load %x[%n, %c, %y, %z]
func.func @main(%x : tensor<4x64x64x64xf32, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>) -> tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%n : 4, %c : 64, %y : 64, %z : 64) outs(%o : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>
    %w = elem.neg %v : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  %s = loops.nest (%n : 4, %c : 64, %y : 64) outs(%o : tensor<4x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce sum (%z : 64) {
      %v = loops.load %t[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y] : tensor<4x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  %p = loops.nest (%n : 4, %c : 64, %y : 64, %z : 64) outs(%o : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %t[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
    %m = loops.load %s[%n, %c, %y] : tensor<4x64x64xf32, #aten.layout<device = "cuda:0">>
    %w = elem.sub %v, %m : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %p : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: 16 columns are too few for the lanes of a warp.
// CHECK:      func.func @main
// CHECK-NEXT:   %t = loops.nest
// CHECK:        %s, %p = loops.nest (%n : 4, %c : 16, %y : 64)
// CHECK-NEXT:     loops.reduce sum (%z : 64) {
// CHECK-NEXT:       loops.load %t[%n, %c, %y, %z]
func.func @main(%x : tensor<4x16x64x64xf32, #aten.layout<strides = [65536, 1, 1024, 16], device = "cuda:0">>) -> tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%n : 4, %c : 16, %y : 64, %z : 64) outs(%o : tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%n, %c, %y, %z] : tensor<4x16x64x64xf32, #aten.layout<strides = [65536, 1, 1024, 16], device = "cuda:0">>
    %w = elem.neg %v : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  %s = loops.nest (%n : 4, %c : 16, %y : 64) outs(%o : tensor<4x16x64xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce sum (%z : 64) {
      %v = loops.load %t[%n, %c, %y, %z] : tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y] : tensor<4x16x64xf32, #aten.layout<device = "cuda:0">>
  }
  %p = loops.nest (%n : 4, %c : 16, %y : 64, %z : 64) outs(%o : tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %t[%n, %c, %y, %z] : tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">>
    %m = loops.load %s[%n, %c, %y] : tensor<4x16x64xf32, #aten.layout<device = "cuda:0">>
    %w = elem.sub %v, %m : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %p : tensor<4x16x64x64xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: what is too much to compute twice is stored, and by a nest that transposes.
// CHECK:      func.func @main
// CHECK-NEXT:   %t = loops.nest
// CHECK:        %s, %p = loops.nest (%n : 4, %c : 64, %y : 64)
// CHECK-NEXT:     loops.reduce sum (%z : 64) {
// CHECK-NEXT:       loops.load %t[%n, %c, %y, %z]
func.func @main(%x : tensor<4x64x64x64xf32, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>) -> tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%n : 4, %c : 64, %y : 64, %z : 64) outs(%o : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>
    %e = elem.erf %v : f32
    %g = elem.erf %e : f32
    %h = elem.erf %g : f32
    %w = elem.erf %h : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  %s = loops.nest (%n : 4, %c : 64, %y : 64) outs(%o : tensor<4x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce sum (%z : 64) {
      %v = loops.load %t[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%n, %c, %y] : tensor<4x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  %p = loops.nest (%n : 4, %c : 64, %y : 64, %z : 64) outs(%o : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %t[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
    %m = loops.load %s[%n, %c, %y] : tensor<4x64x64xf32, #aten.layout<device = "cuda:0">>
    %w = elem.sub %v, %m : f32
    loops.store %w, %o[%n, %c, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %p : tensor<4x64x64x64xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Columns may be those of image after image: an axis that is two in memory.
// CHECK:      func.func @main
// CHECK-NEXT:   %s = loops.nest (%i : 256)
// CHECK-NEXT:     loops.reduce sum (%y : 64, %z : 64) {
// CHECK-NEXT:       loops.load %x[%i floordiv 64, %i mod 64, %y, %z]
func.func @main(%x : tensor<4x64x64x64xf32, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>) -> tensor<256x64x64xf32, #aten.layout<device = "cuda:0">> {
  %t = loops.nest (%i : 256, %y : 64, %z : 64) outs(%o : tensor<256x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i floordiv 64, %i mod 64, %y, %z] : tensor<4x64x64x64xf32, #aten.layout<strides = [262144, 1, 4096, 64], device = "cuda:0">>
    loops.store %v, %o[%i, %y, %z] : tensor<256x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  %s = loops.nest (%i : 256) outs(%o : tensor<256xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce sum (%y : 64, %z : 64) {
      %v = loops.load %t[%i, %y, %z] : tensor<256x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %m, %o[%i] : tensor<256xf32, #aten.layout<device = "cuda:0">>
  }
  %p = loops.nest (%i : 256, %y : 64, %z : 64) outs(%o : tensor<256x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %t[%i, %y, %z] : tensor<256x64x64xf32, #aten.layout<device = "cuda:0">>
    %m = loops.load %s[%i] : tensor<256xf32, #aten.layout<device = "cuda:0">>
    %w = elem.sub %v, %m : f32
    loops.store %w, %o[%i, %y, %z] : tensor<256x64x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %p : tensor<256x64x64xf32, #aten.layout<device = "cuda:0">>
}
