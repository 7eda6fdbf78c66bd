// RUN: cuesta-opt %s -p "add-counters" --split-input-file

// One for each of 4 groups, and one for each of 16 points.
// CHECK:      %count = loops.nest (%0 : 20) outs(%1: tensor<20xi32>) {
// CHECK:        loops.store %{{.*}}, %1[%0] : tensor<20xi32>
// CHECK:      %y, %t, %{{.*}} = loops.nest (%i : 4, %p : 4) outs(%o: tensor<4x32xf32>, %u: tensor<4x4xf32>, %count_1: tensor<20xi32>) updates(%count) {
// CHECK:        loops.meet %count_1 last 1 : tensor<20xi32>
func.func @main(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %y, %t = loops.nest (%i : 4, %p : 4) outs(%o: tensor<4x32xf32>, %u: tensor<4x4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %p * 8 + %j] : tensor<4x32xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %u[%i, %p] : tensor<4x4xf32>
    loops.meet last 1
    %v = loops.reduce sum (%k : 4) {
      %a = loops.load %u[%i, %k] : tensor<4x4xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 8) {
      %a = loops.load %x[%i, %p * 8 + %j] : tensor<4x32xf32>
      %b = elem.sub %a, %v : f32
      loops.store %b, %o[%i, %p * 8 + %j] : tensor<4x32xf32>
    }
  }
  func.return %y : tensor<4x32xf32>
}

// -----
// Near miss: nobody meets.
// CHECK-NOT:  updates
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    loops.store %a, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
