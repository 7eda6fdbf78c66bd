// RUN: cuesta-opt %s --machine "processors=4" -p "choose-parts{target=cuda}" --split-input-file

// The greatest of what rows have found comes first, and is small: what is chosen is about the sum over all points.
// CHECK:      schedule #loops.schedule<part = 1024> {
func.func @main(%x : tensor<64x512xf32>, %g : tensor<64xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %m = loops.reduce maximum (%i : 64) {
      %a = loops.load %g[%i] : tensor<64xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%i : 64, %j : 512) {
      %a = loops.load %x[%i, %j] : tensor<64x512xf32>
      %d = elem.sub %a, %m : f32
      %e = elem.exp %d : f32
      loops.yield %e : f32
    } : f32
    %l = elem.log %s : f32
    %r = elem.add %l, %m : f32
    loops.store %r, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// Near miss: the first reduction stores what it reads, so no two programs may do it.
// CHECK-NOT:  schedule
func.func @main(%x : tensor<64x512xf32>, %g : tensor<64xf32>) -> (tensor<f32>, tensor<64xf32>) {
  %y, %z = loops.nest () outs(%o : tensor<f32>, %p : tensor<64xf32>) {
    %m = loops.reduce maximum (%i : 64) {
      %a = loops.load %g[%i] : tensor<64xf32>
      loops.store %a, %p[%i] : tensor<64xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%i : 64, %j : 512) {
      %a = loops.load %x[%i, %j] : tensor<64x512xf32>
      %d = elem.sub %a, %m : f32
      loops.yield %d : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y, %z : tensor<f32>, tensor<64xf32>
}

// -----
// Near miss: the first reduction is not small beside the second.
// CHECK-NOT:  schedule
func.func @main(%x : tensor<64x512xf32>, %g : tensor<6144xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %m = loops.reduce maximum (%i : 6144) {
      %a = loops.load %g[%i] : tensor<6144xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%i : 64, %j : 512) {
      %a = loops.load %x[%i, %j] : tensor<64x512xf32>
      %d = elem.sub %a, %m : f32
      loops.yield %d : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}
