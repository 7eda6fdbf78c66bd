// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// On a GPU a scatter takes in what it reads, and nothing joins its points: they are done when all of them are.
// CHECK:      func.func @main
// CHECK-NEXT:   %s = loops.nest (%j : 8)
// CHECK:          loops.scan (%i : 4) {
// CHECK:            %{{.*}} = elem.neg
// CHECK:            loops.combine sum
// CHECK:        }
// CHECK-NEXT: }
// CHECK-NEXT: %y = loops.nest
func.func @main(%x : tensor<4x8xf32, #aten.layout<device = "cuda:0">>, %k : tensor<4xi64, #aten.layout<device = "cuda:0">>)
    -> tensor<5x8xf32, #aten.layout<device = "cuda:0">> {
  %a = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i, %j] : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
  }
  %s = loops.nest (%j : 8) outs(%o : tensor<5x8xf32, #aten.layout<device = "cuda:0">>) {
    loops.for (%i : 5) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<5x8xf32, #aten.layout<device = "cuda:0">>
    }
    loops.scan (%i : 4) {
      %n = loops.load %k[%i] : tensor<4xi64, #aten.layout<device = "cuda:0">>
      %r = loops.bound %n, 5 : i64
      %v = loops.load %a[%i, %j] : tensor<4x8xf32, #aten.layout<device = "cuda:0">>
      loops.combine sum %v, %o[%r, %j] : tensor<5x8xf32, #aten.layout<device = "cuda:0">>
    }
  }
  %y = loops.nest (%i : 5, %j : 8) outs(%o : tensor<5x8xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %s[%i, %j] : tensor<5x8xf32, #aten.layout<device = "cuda:0">>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<5x8xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<5x8xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: on the CPU the consumer's points are those of the scatter.
// CHECK:      func.func @main
// CHECK-NEXT:   %s, %y = loops.nest (%j : 8)
// CHECK-NOT:    loops.nest
func.func @main(%x : tensor<4x8xf32>, %k : tensor<4xi64>) -> tensor<5x8xf32> {
  %s = loops.nest (%j : 8) outs(%o : tensor<5x8xf32>) {
    loops.for (%i : 5) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<5x8xf32>
    }
    loops.scan (%i : 4) {
      %n = loops.load %k[%i] : tensor<4xi64>
      %r = loops.bound %n, 5 : i64
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.combine sum %v, %o[%r, %j] : tensor<5x8xf32>
    }
  }
  %y = loops.nest (%i : 5, %j : 8) outs(%o : tensor<5x8xf32>) {
    %v = loops.load %s[%i, %j] : tensor<5x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<5x8xf32>
  }
  func.return %y : tensor<5x8xf32>
}
