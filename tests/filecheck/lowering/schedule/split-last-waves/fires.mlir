// RUN: cuesta-opt %s -p "split-last-waves" --split-input-file
// ROUNDTRIP

// Whole tiles have their sums whole, and the last rows in parts, of which `split-reductions` makes nests.
// CHECK:      %y = loops.nest (%i : 64, %j : 64) outs(%o: tensor<64x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, descriptors = 1, programs = 4> {
// CHECK:        loops.reduce sum (%k : 64)
// CHECK:          loops.load %a[%i, %k]
// CHECK:        loops.store %s, %o[%i, %j] : tensor<64x64xf32, #aten.layout<device = "cuda:0">>
// CHECK:      %y_1 = loops.nest (%i : 20, %j : 64) outs(%o: tensor<20x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, descriptors = 1, part = 16> {
// CHECK:        loops.reduce sum (%k : 64)
// CHECK:          loops.load %a[%i + 64, %k]
// CHECK:        loops.store %s, %o[%i, %j] : tensor<20x64xf32, #aten.layout<device = "cuda:0">>
// CHECK:      %y_2 = loops.join %y, %y_1 along 0 : tensor<64x64xf32, #aten.layout<device = "cuda:0">>, tensor<20x64xf32, #aten.layout<device = "cuda:0">> to tensor<84x64xf32, #aten.layout<device = "cuda:0">>
// CHECK-NEXT: func.return %y_2
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<84x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<84x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, descriptors = 1, programs = 4, stream_k = 20, part = 16> {
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

// Rows are those of the tile, wherever they lie in what is stored: its elements lie side by side along the columns.
// CHECK:      loops.nest (%i : 84, %j : 32)
// CHECK:      loops.nest (%i : 84, %j : 32)
// CHECK:        loops.load %b[%k, %j + 32]
// CHECK:      loops.join {{.*}} along 0 : tensor<32x84xf32, #aten.layout<device = "cuda:0">>, tensor<32x84xf32, #aten.layout<device = "cuda:0">> to tensor<64x84xf32, #aten.layout<device = "cuda:0">>
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x84xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<64x84xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 32, part = 16> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%j, %i] : tensor<64x84xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<64x84xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: a schedule that does not say so.
// CHECK:      loops.nest (%i : 84, %j : 64)
// CHECK-NOT:  loops.join
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<84x64xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 64) outs(%o : tensor<84x64xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, part = 16> {
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

// Columns in place of rows.
// CHECK:      loops.nest (%i : 84, %j : 32)
// CHECK:      loops.nest (%i : 84, %j : 20) {{.*}} part = 16>
// CHECK:        loops.load %b[%k, %j + 32]
// CHECK:        loops.store %s, %o[%i, %j]
// CHECK:      loops.join {{.*}} along 1
func.func @main(%a : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x52xbf16, #aten.layout<device = "cuda:0">>) -> tensor<84x52xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 84, %j : 52) outs(%o : tensor<84x52xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 8, stream_k = 20, stream_columns = 1, part = 16> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<84x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x52xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<84x52xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<84x52xf32, #aten.layout<device = "cuda:0">>
}
