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
