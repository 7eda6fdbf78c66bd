// RUN: cuesta-opt %s -p "choose-products" --split-input-file

// Nothing surrounds it.
// CHECK: loops.extern pure "aten.mm.default"
func.func @main(%a : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  func.return %m : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// A processor has no matrix units of that kind.
// CHECK: loops.extern pure "aten.mm.default"
func.func @main(%a : tensor<32x64xbf16>, %b : tensor<64x64xbf16>) -> tensor<32x64xbf16> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
  %y = loops.nest (%i : 32, %j : 64) outs(%o : tensor<32x64xbf16>) {
    %0 = loops.load %m[%i, %j] : tensor<32x64xbf16>
    loops.store %0, %o[%i, %j] : tensor<32x64xbf16>
  }
  func.return %y : tensor<32x64xbf16>
}

// -----
// Pieces of rows that do not begin where vectors may.
// CHECK: loops.extern pure "aten.mm.default"
func.func @main(%a : tensor<32x64xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64x66xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x66xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xf32, #aten.layout<device = "cuda:0">>, tensor<64x66xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x66xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 32, %j : 66) outs(%o : tensor<32x66xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i, %j] : tensor<32x66xf32, #aten.layout<device = "cuda:0">>
    %1 = elem.tanh %0 : f32
    loops.store %1, %o[%i, %j] : tensor<32x66xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<32x66xf32, #aten.layout<device = "cuda:0">>
}

// -----
// A device on which pieces were not measured.
// CHECK: loops.extern pure "aten.mm.default"
builtin.module attributes {cuesta.machine = #cuesta.machine<architecture = 80>} {
func.func @main(%a : tensor<32x64xf32, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xf32, #aten.layout<device = "cuda:0">>, tensor<64x64xf32, #aten.layout<device = "cuda:0">>) -> tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 32, %j : 64) outs(%o : tensor<32x64xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i, %j] : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
    %1 = elem.tanh %0 : f32
    loops.store %1, %o[%i, %j] : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<32x64xf32, #aten.layout<device = "cuda:0">>
}
}

// -----
// Somebody has said how the nest is to run.
// CHECK: loops.extern pure "aten.mm.default"
// CHECK: #loops.schedule<lanes = 32>
func.func @main(%a : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 32, %j : 64) outs(%o : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<lanes = 32> {
    %0 = loops.load %m[%i, %j] : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
    loops.store %0, %o[%i, %j] : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// The last step of a tile would have no points for some lanes, so that every load is masked, and slower than is predicted.
// CHECK: loops.extern pure "aten.mm.default"
func.func @main(%a : tensor<32x68xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<68x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<32x68xbf16, #aten.layout<device = "cuda:0">>, tensor<68x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<32x64xbf16, #aten.layout<device = "cuda:0">>
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
// Heads and rows are one axis of the nest that reads the product: no axis is of its rows only.
// CHECK: loops.extern pure "aten.bmm.default"
func.func @main(%a : tensor<16x64x128xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<16x128x128xbf16, #aten.layout<device = "cuda:0">>) -> tensor<4x128x256xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.bmm.default"(%a, %b) : (tensor<16x64x128xbf16, #aten.layout<device = "cuda:0">>, tensor<16x128x128xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x64x128xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 4, %s : 128, %j : 256) outs(%o : tensor<4x128x256xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i * 4 + %j floordiv 64, %j mod 64, %s] : tensor<16x64x128xbf16, #aten.layout<device = "cuda:0">>
    %1 = elem.tanh %0 : bf16
    loops.store %1, %o[%i, %s, %j] : tensor<4x128x256xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x128x256xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// The same of f32: a nest by itself.
// CHECK:     %m = loops.nest (%{{.*}} : 16, %{{.*}} : 64, %{{.*}} : 128)
// CHECK:     %y = loops.nest (%{{.*}} : 4, %{{.*}} : 128, %{{.*}} : 256)
func.func @main(%a : tensor<16x64x128xf32, #aten.layout<device = "cuda:0">>, %b : tensor<16x128x128xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x128x256xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.bmm.default"(%a, %b) : (tensor<16x64x128xf32, #aten.layout<device = "cuda:0">>, tensor<16x128x128xf32, #aten.layout<device = "cuda:0">>) -> tensor<16x64x128xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 4, %s : 128, %j : 256) outs(%o : tensor<4x128x256xf32, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i * 4 + %j floordiv 64, %j mod 64, %s] : tensor<16x64x128xf32, #aten.layout<device = "cuda:0">>
    %1 = elem.tanh %0 : f32
    loops.store %1, %o[%i, %s, %j] : tensor<4x128x256xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x128x256xf32, #aten.layout<device = "cuda:0">>
}
