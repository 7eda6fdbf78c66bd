// RUN: cuesta-opt %s -p eliminate-views
func.func @main(%x : tensor<4x8xf32>) -> tensor<8x4xf32> {
  %t = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %y = loops.nest (%i : 8, %j : 4) outs(%o : tensor<8x4xf32>) {
    %a = loops.load %t[%i, %j] : tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i, %j] : tensor<8x4xf32>
  }
  func.return %y : tensor<8x4xf32>
}
