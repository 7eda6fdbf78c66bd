// RUN: cuesta-opt %s -p "choose-forms" --split-input-file
// ROUNDTRIP
// SLOW

// More tiles than processors: as many programs as these, of which each begins the next tile while it stores one.
// CHECK: schedule #loops.schedule<rows = 128, columns = 256, depth = 64, warps = 8, stages = 3, group = 8, descriptors = 1, programs = 132> {
func.func @main(%a : tensor<2048x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x4096xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2048x4096xbf16, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 2048, %j : 4096) outs(%o : tensor<2048x4096xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 256, depth = 64, warps = 8, stages = 3, group = 8> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<2048x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x4096xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    %r = elem.convert %s : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<2048x4096xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2048x4096xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// Elements of 32 bits go through more shared memory than there is beside the next factors: a program a tile.
// CHECK: schedule #loops.schedule<rows = 128, columns = 256, depth = 64, warps = 8, stages = 3, group = 8, descriptors = 1> {
func.func @main(%a : tensor<2048x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x4096xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2048x4096xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 2048, %j : 4096) outs(%o : tensor<2048x4096xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 256, depth = 64, warps = 8, stages = 3, group = 8> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<2048x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x4096xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<2048x4096xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2048x4096xf32, #aten.layout<device = "cuda:0">>
}

// -----
// A tile for each processor, or fewer.
// CHECK: schedule #loops.schedule<rows = 128, columns = 256, depth = 64, warps = 8, stages = 3, group = 8, descriptors = 1> {
func.func @main(%a : tensor<2048x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x2048xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2048x2048xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 2048, %j : 2048) outs(%o : tensor<2048x2048xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 256, depth = 64, warps = 8, stages = 3, group = 8> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<2048x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x2048xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<2048x2048xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2048x2048xf32, #aten.layout<device = "cuda:0">>
}

// -----
// Two programs share a processor: those that end first leave it to the others, where there are few.
// CHECK: schedule #loops.schedule<rows = 128, columns = 128, depth = 64, warps = 4, stages = 3, group = 8, descriptors = 1> {
func.func @main(%a : tensor<2304x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x2048xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2304x2048xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 2304, %j : 2048) outs(%o : tensor<2304x2048xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 128, depth = 64, warps = 4, stages = 3, group = 8> {
    %s = loops.reduce sum (%k : 64) {
      %0 = loops.load %a[%i, %k] : tensor<2304x64xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<64x2048xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<2304x2048xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2304x2048xf32, #aten.layout<device = "cuda:0">>
}

// -----
// Points that end within a step need no mask.
// CHECK: schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8, descriptors = 1> {
func.func @main(%a : tensor<512x200xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<200x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 512, %j : 512) outs(%o : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8> {
    %s = loops.reduce sum (%k : 200) {
      %0 = loops.load %a[%i, %k] : tensor<512x200xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<200x512xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
}
