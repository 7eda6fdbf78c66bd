// RUN: cuesta-opt %s -p "spread-rows"

// Near miss: on a processor a row is a loop, and what it shares is computed once.
// CHECK: loops.nest (%i : 6) outs
func.func @main(%x : tensor<6x40xf32>, %v : tensor<6xf32>) -> tensor<6x40xf32> {
  %y = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    %a = loops.load %v[%i] : tensor<6xf32>
    loops.for (%j : 40) {
      %c = loops.load %x[%i, %j] : tensor<6x40xf32>
      %d = elem.add %a, %c : f32
      loops.store %d, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  func.return %y : tensor<6x40xf32>
}
