// RUN: cuesta-opt %s -p "choose-waves" --split-input-file
// ROUNDTRIP
// SLOW

// Nine tiles for a processor that has eight at a time: the last one would take as long as these.
// CHECK: schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 16, part = 128> {
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<144x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<144x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 144, %j : 16) outs(%o : tensor<144x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<144x1024xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<144x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<144x16xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Rows are those of the tile, wherever they lie in what is stored.
// CHECK: schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 16, part = 128> {
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<16x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x144xbf16, #aten.layout<device = "cuda:0">>) -> tensor<144x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 16, %j : 144) outs(%o : tensor<144x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<16x1024xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x144xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%j, %i] : tensor<144x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<144x16xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Fewer columns are left than rows.
// CHECK: schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 16, stream_columns = 1, part = 128> {
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<16x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x144xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x144xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 16, %j : 144) outs(%o : tensor<16x144xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<16x1024xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x144xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<16x144xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<16x144xf32, #aten.layout<device = "cuda:0">>
}
}
