// RUN: cuesta-opt %s -p "choose-products" --split-input-file

// A launch less, and the product is neither stored nor read again.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%i : 32, %j : 64) outs({{.*}}) schedule #loops.schedule<rows = {{.*}}, columns = {{.*}}, depth = {{.*}}>
// CHECK:     loops.reduce sum (%k : 64)
func.func @main(%a : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 32, %j : 64) outs(%o : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i, %j] : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%i, %j] : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// Two products of which one kernel reads both: one nest sums both.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%i : 32, %j : 64)
// CHECK:     loops.reduce sum (%k : 64)
// CHECK:     loops.reduce sum (%k
func.func @main(%a : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>, %c : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  %n = loops.extern pure "aten.mm.default"(%a, %c) : (tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 32, %j : 64) outs(%o : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i, %j] : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = loops.load %n[%i, %j] : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
    %3 = elem.convert %2 : bf16 to f32
    %4 = elem.mul %1, %3 : f32
    %5 = elem.convert %4 : f32 to bf16
    loops.store %5, %o[%i, %j] : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// What reduces the rows of a product computes it; in parts, as wide as a tile.
// CHECK-NOT: loops.extern
// CHECK:     loops.nest (%i : 64) outs({{.*}}) schedule #loops.schedule<rows = {{.*}}, columns = [[WIDTH:[0-9]+]], depth = {{.*}}, part = [[WIDTH]]
// CHECK:     loops.reduce maximum (%j : 512)
// CHECK:       loops.reduce sum (%k : 64)
func.func @main(%a : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x512xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x512xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32, #aten.layout<device = "cuda:0">>) {
    %t = loops.reduce maximum (%j : 512) {
      %0 = loops.load %m[%i, %j] : tensor<64x512xbf16, #aten.layout<device = "cuda:0">>
      %1 = elem.convert %0 : bf16 to f32
      loops.yield %1 : f32
    } : f32
    loops.store %t, %o[%i] : tensor<64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<64xf32, #aten.layout<device = "cuda:0">>
}

// -----
// f32 in pieces of bf16: nothing is rounded to TF32 unasked.
// CHECK-NOT: loops.extern
// CHECK:     bf16x6 = 1
// CHECK:     elem.tanh
func.func @main(%a : tensor<32x64xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xf32, #aten.layout<device = "cuda:0">>, tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 32, %j : 64) outs(%o : tensor<32x64xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i, %j] : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
    %1 = elem.tanh %0 : f32
    loops.store %1, %o[%i, %j] : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
}

// -----
// With nothing around it, too: it is faster than the library.
// CHECK-NOT: loops.extern
// CHECK:     bf16x6 = 1
func.func @main(%a : tensor<32x64xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xf32, #aten.layout<device = "cuda:0">>, tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  func.return %m : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
}
