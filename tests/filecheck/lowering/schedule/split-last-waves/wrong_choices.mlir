// RUN: not cuesta-opt %s -p "split-last-waves" --split-input-file

// CHECK: loops.nest: its schedule says stream_k = 20, of no contraction with a part
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<84x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<84x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 20> {
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

// -----
// CHECK: loops.nest: its schedule says stream_k = 84, but 84 rows are no whole tiles of 16, and these and more than one
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<84x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<84x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 84, part = 16> {
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

// -----
// CHECK: loops.nest: its schedule says stream_k = 21, but 84 rows are no whole tiles of 16, and these and more than one
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<84x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<84x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 21, part = 16> {
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

// -----
// CHECK: loops.nest: its schedule says stream_k = 20, but a row of it is no row of what it stores
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<5376xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<5376xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 20, part = 16> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i * 64 + %j] : tensor<5376xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<5376xf32, #aten.layout<device = "cuda:0">>
}

// -----
// CHECK: loops.nest: its schedule says stream_k = 20, but its factors have the types f32 and f32
func.func @main(%a : tensor<84x64xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<84x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<84x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 20, part = 16> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<84x64xf32, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x64xf32, #aten.layout<device = "cuda:0">>
      %2 = elem.neg %0 : f32
      %3 = elem.neg %1 : f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<84x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<84x64xf32, #aten.layout<device = "cuda:0">>
}
