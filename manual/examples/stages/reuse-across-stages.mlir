// RUN: cuesta-opt %s -p reuse-across-stages
func.func @main(%x : tensor<64x256xf32>) -> tensor<64x256xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64x256xf32>) {
    %s = loops.reduce sum (%j : 256) {
      %a = loops.load %x[%i, %j] : tensor<64x256xf32>
      %e = elem.exp %a : f32
      loops.yield %e : f32
    } : f32
    loops.for (%j : 256) {
      %a = loops.load %x[%i, %j] : tensor<64x256xf32>
      %e = elem.exp %a : f32
      %q = elem.div %e, %s : f32
      loops.store %q, %o[%i, %j] : tensor<64x256xf32>
    }
  }
  func.return %y : tensor<64x256xf32>
}
