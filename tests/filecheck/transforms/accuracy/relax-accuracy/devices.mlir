// RUN: cuesta-opt %s -p relax-accuracy

// By default only what runs on a GPU is marked.
// CHECK:      func.func @main
// CHECK:          elem.exp %a : f32{{$}}
// CHECK:          elem.exp %a : f32 precision bf16
func.func @main(%x : tensor<4xf32>, %z : tensor<4xf32, #aten.layout<device = "cuda:0">>) -> (tensor<4xbf16>, tensor<4xbf16, #aten.layout<device = "cuda:0">>) {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xbf16>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.exp %a : f32
    %c = elem.convert %b : f32 to bf16
    loops.store %c, %o[%i] : tensor<4xbf16>
  }
  %w = loops.nest (%i : 4) outs(%o : tensor<4xbf16, #aten.layout<device = "cuda:0">>) {
    %a = loops.load %z[%i] : tensor<4xf32, #aten.layout<device = "cuda:0">>
    %b = elem.exp %a : f32
    %c = elem.convert %b : f32 to bf16
    loops.store %c, %o[%i] : tensor<4xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y, %w : tensor<4xbf16>, tensor<4xbf16, #aten.layout<device = "cuda:0">>
}
