// RUN: cuesta-opt %s --machine "processors=4" -p "sum-columns-with-rows{target=cuda},choose-parts{target=cuda},split-reductions{target=cuda},loops-to-kernel{target=cuda}" --split-input-file

// Softmax of few long rows: parts that one tile holds, their combination, and the output point by point, from the end.
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = [3, 25], target = cuda
// CHECK:        kernel.reduce maximum (%j = 0 to 8192 lanes 8192) {
// CHECK:        kernel.reduce sum (%j = 0 to 8192 lanes 8192) {
// CHECK-NOT:    kernel.for
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = [3], target = cuda
// CHECK:        kernel.reduce maximum
// CHECK:        kernel.reduce sum
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = {{.*}} reversed = 1> {
// CHECK-NOT:    kernel.reduce
func.func @main(%x : tensor<3x200001xf32>) -> tensor<3x200001xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<3x200001xf32>) {
    %m = loops.reduce maximum (%j : 200001) {
      %a = loops.load %x[%i, %j] : tensor<3x200001xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 200001) {
      %a = loops.load %x[%i, %j] : tensor<3x200001xf32>
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      loops.yield %c : f32
    } : f32
    loops.for (%j : 200001) {
      %a = loops.load %x[%i, %j] : tensor<3x200001xf32>
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      %d = elem.div %c, %s : f32
      loops.store %d, %o[%i, %j] : tensor<3x200001xf32>
    }
  }
  func.return %y : tensor<3x200001xf32>
}

// -----
// Near miss: rows that one tile holds stay whole.
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = [64], target = cuda
// CHECK-NOT:  kernel.func
// CHECK:      func.func @main
func.func @main(%x : tensor<64x16384xf32>) -> tensor<64x16384xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64x16384xf32>) {
    %s = loops.reduce sum (%j : 16384) {
      %a = loops.load %x[%i, %j] : tensor<64x16384xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 16384) {
      %a = loops.load %x[%i, %j] : tensor<64x16384xf32>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%i, %j] : tensor<64x16384xf32>
    }
  }
  func.return %y : tensor<64x16384xf32>
}

// -----
// By hand: parts of 16 points, the last of which is shorter.
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = [2, 5], target = cuda
// CHECK:        elem.lt
// CHECK:        kernel.load %x[%p * 70 + %p_1 * 16 + %j] if
// CHECK:        elem.select
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = [2], target = cuda
func.func @main(%x : tensor<2x70xf32>) -> tensor<2xf32> {
  %y = loops.nest (%i : 2) outs(%o : tensor<2xf32>) schedule #loops.schedule<part = 16> {
    %m = loops.reduce minimum (%j : 70) {
      %a = loops.load %x[%i, %j] : tensor<2x70xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i] : tensor<2xf32>
  }
  func.return %y : tensor<2xf32>
}

// -----
// Columns of what another nest reads by rows are reduced there, a block of rows at a time, one row after the other.
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = [32], target = cuda
// CHECK:        kernel.for (%{{.*}} = 0 to 1024 lanes 1024) {
// CHECK:          kernel.store
// CHECK:        kernel.scan (%{{.*}} = 0 to 16) {
// CHECK:          kernel.reduce sum (%{{.*}} = 0 to 1024 lanes 1024) {
// CHECK:          kernel.for (%{{.*}} = 0 to 1024 lanes 1024) {
// CHECK:            kernel.store
// CHECK:          kernel.for (%{{.*}} = 0 to 1024 lanes 1024) {
// CHECK:            kernel.combine maximum
// CHECK:      kernel.func @{{.*}} schedule
// CHECK:        kernel.reduce maximum
func.func @main(%g : tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<1024xf32>) {
  %y = loops.nest (%i : 512) outs(%o : tensor<512x1024xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%i, %j] : tensor<512x1024xf32>
    }
  }
  %z = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce maximum (%i : 512) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %y, %z : tensor<512x1024xf32>, tensor<1024xf32>
}

// -----
// Near miss: the columns of another tensor.
// CHECK-NOT:  kernel.scan
// CHECK:      func.func @main
func.func @main(%g : tensor<512x1024xf32>, %h : tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<1024xf32>) {
  %y = loops.nest (%i : 512) outs(%o : tensor<512x1024xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 1024) {
      loops.store %s, %o[%i, %j] : tensor<512x1024xf32>
    }
  }
  %z = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce maximum (%i : 512) {
      %a = loops.load %h[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %y, %z : tensor<512x1024xf32>, tensor<1024xf32>
}
