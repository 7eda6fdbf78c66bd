// RUN: cuesta-opt %s -p reuse-across-stages,dce

// exp is computed in the first stage, kept, and read back in the second.
// CHECK:      %y, %0 = loops.nest (%i : 3) outs(%o: tensor<3x8xf32>, %1: tensor<3x8xf32>) {
// CHECK:        loops.reduce sum
// CHECK:          %e = elem.exp %a : f32
// CHECK-NEXT:     loops.store %e, %1[%i, %j]
// CHECK:        loops.for
// CHECK-NEXT:     %f = loops.load %1[%i, %k]
// CHECK-NEXT:     %d = elem.div %f, %s : f32
// CHECK-NOT:    elem.exp
func.func @main(%x : tensor<3x8xf32>) -> tensor<3x8xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<3x8xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<3x8xf32>
      %e = elem.exp %a : f32
      loops.yield %e : f32
    } : f32
    loops.for (%k : 8) {
      %b = loops.load %x[%i, %k] : tensor<3x8xf32>
      %f = elem.exp %b : f32
      %d = elem.div %f, %s : f32
      loops.store %d, %o[%i, %k] : tensor<3x8xf32>
    }
  }
  func.return %y : tensor<3x8xf32>
}
