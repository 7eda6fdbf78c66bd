// RUN: cuesta-opt %s -p "join-points-and-parts"

// Near miss: not on a CPU.
// CHECK:      loops.nest (%{{.*}} : 8) outs(%{{.*}}: tensor<8xf32>) {
// CHECK:      loops.nest (%{{.*}} : 32768)
func.func @main(%x : tensor<32768xf32>) -> (tensor<8xf32>, tensor<32768xf32>) {
  %t = loops.nest (%p : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %a = loops.load %x[%p * 4096 + %j] : tensor<32768xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<8xf32>
  }
  %y = loops.nest (%i : 32768) outs(%o : tensor<32768xf32>) {
    %a = loops.load %x[%i] : tensor<32768xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i] : tensor<32768xf32>
  }
  func.return %t, %y : tensor<8xf32>, tensor<32768xf32>
}
