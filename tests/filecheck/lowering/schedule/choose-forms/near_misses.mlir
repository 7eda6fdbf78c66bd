// RUN: cuesta-opt %s -p "choose-forms" --split-input-file

// Near miss: a schedule that says so itself.
// CHECK: schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8, descriptors = 0> {
func.func @main(%a : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 512, %j : 512) outs(%o : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8, descriptors = 0> {
    %s = loops.reduce sum (%k : 256) {
      %0 = loops.load %a[%i, %k] : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
}

// -----
// Near miss: a machine without descriptors.
// CHECK: schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8> {
builtin.module attributes {cuesta.machine = #cuesta.machine<architecture = 80>} {
func.func @main(%a : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 512, %j : 512) outs(%o : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8> {
    %s = loops.reduce sum (%k : 256) {
      %0 = loops.load %a[%i, %k] : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Near miss: rows that do not begin at multiples of 16 bytes.
// CHECK: schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8> {
func.func @main(%a : tensor<512x204xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<204x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 512, %j : 512) outs(%o : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8> {
    %s = loops.reduce sum (%k : 204) {
      %0 = loops.load %a[%i, %k] : tensor<512x204xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<204x512xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
}

// -----
// Near miss: factors of f32, which nobody measured.
// CHECK: schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8, tf32 = 1> {
func.func @main(%a : tensor<512x256xf32, #aten.layout<device = "cuda:0">>, %b : tensor<256x512xf32, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 512, %j : 512) outs(%o : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8, tf32 = 1> {
    %s = loops.reduce sum (%k : 256) {
      %0 = loops.load %a[%i, %k] : tensor<512x256xf32, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<256x512xf32, #aten.layout<device = "cuda:0">>
      %p = elem.mul %0, %1 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
}

// -----
// Near miss: a factor that is computed where it is read.
// CHECK: schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8> {
func.func @main(%a : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 512, %j : 512) outs(%o : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8> {
    %s = loops.reduce sum (%k : 256) {
      %0 = loops.load %a[%i, %k] : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %g = elem.exp %2 : f32
      %hb = elem.convert %g : f32 to bf16
      %h = elem.convert %hb : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %h, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
}

// -----
// Near miss: parts, of which `split-reductions` makes nests first.
// CHECK: schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8, part = 128> {
func.func @main(%a : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 512, %j : 512) outs(%o : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 128, columns = 64, depth = 64, warps = 4, stages = 4, group = 8, part = 128> {
    %s = loops.reduce sum (%k : 256) {
      %0 = loops.load %a[%i, %k] : tensor<512x256xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<256x512xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
}
