// RUN: not cuesta-opt %s -p "split-reductions"

// CHECK: its schedule asks for a contraction and says part = 24, but it sums 64 points
func.func @main(%a : tensor<16x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 16, %j : 16) outs(%o : tensor<16x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, part = 24> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<16x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = elem.convert %0 : bf16 to f32
      %2 = loops.load %b[%k, %j] : tensor<64x16xbf16, #aten.layout<device = "cuda:0">>
      %3 = elem.convert %2 : bf16 to f32
      %4 = elem.mul %1, %3 : f32
      loops.yield %4 : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<16x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<16x16xf32, #aten.layout<device = "cuda:0">>
}
