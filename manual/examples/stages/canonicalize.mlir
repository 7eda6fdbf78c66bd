// RUN: cuesta-opt %s -p canonicalize
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x8xf32>
    %four = elem.constant 4.0 : f32
    %b = elem.div %a, %four : f32
    %c = elem.neg %b : f32
    %d = elem.neg %c : f32
    loops.store %d, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}
