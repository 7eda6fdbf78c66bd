// RUN: cuesta-opt %s -p "spread-scans"

// Near miss: a processor has no atomics, and needs none.
// CHECK-NOT:  loops.atomic
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %f = loops.nest (%j : 20, %i : 90) outs(%o : tensor<90x20xf32>) {
    %zero = elem.constant 0.0 : f32
    loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
  }
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) updates(%f) {
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine sum %a, %o[%r, %j] : tensor<90x20xf32>
    }
  }
  func.return %y : tensor<90x20xf32>
}
