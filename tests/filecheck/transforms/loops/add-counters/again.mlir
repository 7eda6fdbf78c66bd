// RUN: cuesta-opt %s -p "add-counters,add-counters"

// Near miss: who has counters needs no others.
// CHECK:      outs(%1: tensor<20xi32>) {
// CHECK-NOT:  : tensor<20xi32>) {
// CHECK:      updates(%count) {
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
