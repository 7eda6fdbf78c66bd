// RUN: cuesta-opt %s -p "contract-sums" --split-input-file
// ROUNDTRIP
// SLOW

// A product of matrices that somebody wrote as a sum, with what follows; the factors lie as they like.
// CHECK: schedule #loops.schedule<rows = {{[0-9]+}}, columns = {{[0-9]+}}, depth = {{[0-9]+}}, warps = {{.*}}> {
func.func @main(%a : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x48xbf16, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 64, %j : 48) outs(%o : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%k : 40) {
      %x = loops.load %a[%i, %k] : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>
      %w = loops.load %b[%j, %k] : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>
      %xf = elem.convert %x : bf16 to f32
      %wf = elem.convert %w : bf16 to f32
      %p = elem.mul %xf, %wf : f32
      loops.yield %p : f32
    } : f32
    %c = elem.constant 2.0 : f32
    %t = elem.mul %s, %c : f32
    %r = elem.convert %t : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
}
