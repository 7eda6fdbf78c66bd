// RUN: not cuesta-opt %s -p "loops-to-kernel{target=cuda}" --split-input-file

// CHECK: no scheduling choice is called warp; there are lanes, rows, along, joined, across, height, warps
func.func @main(%x : tensor<100xf32>) -> tensor<100xf32> {
  %y = loops.nest (%i : 100) outs(%o : tensor<100xf32>) schedule #loops.schedule<warp = 8> {
    %a = loops.load %x[%i] : tensor<100xf32>
    loops.store %a, %o[%i] : tensor<100xf32>
  }
  func.return %y : tensor<100xf32>
}

// -----

// CHECK: its schedule says stream_k, but no depth: it is no contraction
func.func @main(%x : tensor<100xf32>) -> tensor<100xf32> {
  %y = loops.nest (%i : 100) outs(%o : tensor<100xf32>) schedule #loops.schedule<stream_k = 8> {
    %a = loops.load %x[%i] : tensor<100xf32>
    loops.store %a, %o[%i] : tensor<100xf32>
  }
  func.return %y : tensor<100xf32>
}

// -----

// CHECK: its schedule says stream_k = 20, which split-last-waves should have obeyed
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<84x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<84x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 20, part = 16> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<84x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<84x64xf32, #aten.layout<device = "cuda:0">>
}
