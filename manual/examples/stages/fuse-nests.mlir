// RUN: cuesta-opt %s -p fuse-nests
func.func @main(%x : tensor<64x128xf32>) -> tensor<64xf32> {
  %e = loops.nest (%i : 64, %j : 128) outs(%o : tensor<64x128xf32>) {
    %a = loops.load %x[%i, %j] : tensor<64x128xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<64x128xf32>
  }
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce sum (%j : 128) {
      %a = loops.load %e[%i, %j] : tensor<64x128xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}
