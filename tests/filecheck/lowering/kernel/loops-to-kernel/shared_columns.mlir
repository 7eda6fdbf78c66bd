// RUN: cuesta-opt %s -p "choose-parts,split-reductions,loops-to-kernel" --split-input-file

// Two reductions over the same columns of one large tensor: in pieces of the columns, so that the second reads the cache.
// CHECK:      func.func @main
// CHECK-NEXT:   %{{.*}}, %{{.*}} = kernel.launch {{.*}} -> (tensor<64x32xf32>, tensor<64x32xf32>)
// CHECK-NEXT:   %{{.*}}, %{{.*}} = kernel.launch {{.*}} -> (tensor<64xf32>, tensor<64xf32>)
func.func @main(%x : tensor<2048x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a, %b = loops.nest (%j : 64) outs(%o : tensor<64xf32>, %p : tensor<64xf32>) {
    %s = loops.reduce minimum (%i : 2048) {
      %v = loops.load %x[%i, %j] : tensor<2048x64xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%j] : tensor<64xf32>
    %t = loops.reduce maximum (%i : 2048) {
      %v = loops.load %x[%i, %j] : tensor<2048x64xf32>
      loops.yield %v : f32
    } : f32
    loops.store %t, %p[%j] : tensor<64xf32>
  }
  func.return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// -----

// Near miss: rows, which are in the cache when the second reduction reads them.
// CHECK:      func.func @main
// CHECK-NEXT:   %{{.*}}, %{{.*}} = kernel.launch {{.*}} -> (tensor<64xf32>, tensor<64xf32>)
func.func @main(%x : tensor<64x2048xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a, %b = loops.nest (%j : 64) outs(%o : tensor<64xf32>, %p : tensor<64xf32>) {
    %s = loops.reduce minimum (%i : 2048) {
      %v = loops.load %x[%j, %i] : tensor<64x2048xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%j] : tensor<64xf32>
    %t = loops.reduce maximum (%i : 2048) {
      %v = loops.load %x[%j, %i] : tensor<64x2048xf32>
      loops.yield %v : f32
    } : f32
    loops.store %t, %p[%j] : tensor<64xf32>
  }
  func.return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// -----

// Near miss: one reduction alone reads nothing twice.
// CHECK:      func.func @main
// CHECK-NEXT:   %{{.*}} = kernel.launch {{.*}} -> (tensor<64xf32>)
func.func @main(%x : tensor<2048x64xf32>) -> tensor<64xf32> {
  %a = loops.nest (%j : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce minimum (%i : 2048) {
      %v = loops.load %x[%i, %j] : tensor<2048x64xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%j] : tensor<64xf32>
  }
  func.return %a : tensor<64xf32>
}
