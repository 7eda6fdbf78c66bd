// RUN: cuesta-opt %s --split-input-file -p fuse-nests
// SLOW

// What is next to nothing to compute, but is stored for others: the sum of its rows computes it, and stores it. Both
// would read %x.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   %y, %a = loops.nest (%i : 4096) outs(
// CHECK-NEXT:     %s = loops.reduce sum
// CHECK-NEXT:       loops.load %x
// CHECK-NEXT:       elem.neg
// CHECK-NEXT:       loops.store
// CHECK-NEXT:       loops.yield
func.func @main(%x : tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>, tensor<4096xf32>) {
  %a = loops.nest (%i : 4096, %j : 4096) outs(%o : tensor<4096x4096xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4096x4096xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i, %j] : tensor<4096x4096xf32>
  }
  %y = loops.nest (%i : 4096) outs(%o : tensor<4096xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %v = loops.load %a[%i, %j] : tensor<4096x4096xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4096xf32>
  }
  func.return %a, %y : tensor<4096x4096xf32>, tensor<4096xf32>
}

// -----
// Stored for nobody, it is computed by each reader.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4096) outs(
func.func @main(%x : tensor<4096x4096xf32>) -> (tensor<4096xf32>) {
  %a = loops.nest (%i : 4096, %j : 4096) outs(%o : tensor<4096x4096xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4096x4096xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i, %j] : tensor<4096x4096xf32>
  }
  %y = loops.nest (%i : 4096) outs(%o : tensor<4096xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %v = loops.load %a[%i, %j] : tensor<4096x4096xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4096xf32>
  }
  func.return %y : tensor<4096xf32>
}

// -----
// A sum of everything on a GPU is going to be split, and with it what it computes on the way.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   %y, %a = loops.nest () outs(
// CHECK-NEXT:     %s = loops.reduce sum (%i : 4096, %j : 4096) {
// CHECK-NEXT:       loops.load %x
// CHECK-NEXT:       elem.exp
// CHECK-NEXT:       loops.store
func.func @main(%x : tensor<4096x4096xf32, #aten.layout<device = "cuda:0">>) -> (tensor<4096x4096xf32, #aten.layout<device = "cuda:0">>, tensor<f32, #aten.layout<device = "cuda:0">>) {
  %a = loops.nest (%i : 4096, %j : 4096) outs(%o : tensor<4096x4096xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i, %j] : tensor<4096x4096xf32, #aten.layout<device = "cuda:0">>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4096x4096xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest () outs(%o : tensor<f32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%i : 4096, %j : 4096) {
      %v = loops.load %a[%i, %j] : tensor<4096x4096xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[] : tensor<f32, #aten.layout<device = "cuda:0">>
  }
  func.return %a, %y : tensor<4096x4096xf32, #aten.layout<device = "cuda:0">>, tensor<f32, #aten.layout<device = "cuda:0">>
}

// -----
// On a processor one thread would store all of it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4096, %j : 4096) outs(
// CHECK:        %y = loops.nest () outs(
func.func @main(%x : tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>, tensor<f32>) {
  %a = loops.nest (%i : 4096, %j : 4096) outs(%o : tensor<4096x4096xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4096x4096xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4096x4096xf32>
  }
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%i : 4096, %j : 4096) {
      %v = loops.load %a[%i, %j] : tensor<4096x4096xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %a, %y : tensor<4096x4096xf32>, tensor<f32>
}

// -----
// So it would where the sum is too short to be split.
// CHECK-LABEL: func.func @main
// CHECK:        %a = loops.nest (%i : 64, %j : 64) outs(
// CHECK:        %y = loops.nest () outs(
func.func @main(%x : tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> (tensor<64x64xf32, #aten.layout<device = "cuda:0">>, tensor<f32, #aten.layout<device = "cuda:0">>) {
  %a = loops.nest (%i : 64, %j : 64) outs(%o : tensor<64x64xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i, %j] : tensor<64x64xf32, #aten.layout<device = "cuda:0">>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<64x64xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest () outs(%o : tensor<f32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%i : 64, %j : 64) {
      %v = loops.load %a[%i, %j] : tensor<64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[] : tensor<f32, #aten.layout<device = "cuda:0">>
  }
  func.return %a, %y : tensor<64x64xf32, #aten.layout<device = "cuda:0">>, tensor<f32, #aten.layout<device = "cuda:0">>
}
