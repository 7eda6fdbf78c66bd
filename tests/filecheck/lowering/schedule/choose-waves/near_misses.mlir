// RUN: cuesta-opt %s -p "choose-waves" --split-input-file
// SLOW

// Near miss: a last wave that is mostly full.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<240x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<240x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 240, %j : 16) outs(%o : tensor<240x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<240x1024xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<240x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<240x16xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Near miss: no whole wave.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<112x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<112x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 112, %j : 16) outs(%o : tensor<112x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<112x1024xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<112x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<112x16xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Near miss: the last wave is whole.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<256x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<256x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 256, %j : 16) outs(%o : tensor<256x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<256x1024xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<256x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<256x16xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Near miss: points that have no parts that begin at multiples of 16 bytes.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<144x1036xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1036x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<144x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 144, %j : 16) outs(%o : tensor<144x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1036) {
      %0 = loops.load %a[%i, %k] : tensor<144x1036xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1036x16xbf16, #aten.layout<device = "cuda:0">>
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
// Near miss: sums so short that two more launches take what parts gain.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<144x128xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<128x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<144x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 144, %j : 16) outs(%o : tensor<144x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 128) {
      %0 = loops.load %a[%i, %k] : tensor<144x128xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<128x16xbf16, #aten.layout<device = "cuda:0">>
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
// Near miss: a row of the result is no row of what is stored.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<144x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2304xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 144, %j : 16) outs(%o : tensor<2304xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<144x1024xbf16, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : bf16 to f32
      %3 = elem.convert %1 : bf16 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i * 16 + %j] : tensor<2304xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2304xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Near miss: a schedule that says something of its form.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<144x1024xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<1024x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<144x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 144, %j : 16) outs(%o : tensor<144x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8, descriptors = 0> {
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
// Near miss: a machine without descriptors.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1, architecture = 80>} {
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
// Near miss: factors of other than 16 bits.
// CHECK-NOT: stream_k
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 1>} {
func.func @main(%a : tensor<144x1024xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1024x16xf32, #aten.layout<device = "cuda:0">>) -> tensor<144x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 144, %j : 16) outs(%o : tensor<144x16xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 16, columns = 16, depth = 16, warps = 4, stages = 2, group = 8, tf32 = 1> {
    %s = loops.reduce sum (%k : 1024) {
      %0 = loops.load %a[%i, %k] : tensor<144x1024xf32, #aten.layout<device = "cuda:0">>
      %1 = loops.load %b[%k, %j] : tensor<1024x16xf32, #aten.layout<device = "cuda:0">>
      %2 = elem.convert %0 : f32 to f32
      %3 = elem.convert %1 : f32 to f32
      %p = elem.mul %2, %3 : f32
      loops.yield %p : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<144x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<144x16xf32, #aten.layout<device = "cuda:0">>
}
}
