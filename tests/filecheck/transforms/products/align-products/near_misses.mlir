// RUN: cuesta-opt %s -p align-products --split-input-file

// Near misses: an odd number of rows, which no vector meets.
// CHECK-NOT:  loops.nest (%{{.*}} : 4096
// CHECK:      loops.extern pure "aten.mm.default"(%x, %w)
func.func @main(%x : tensor<15x4096xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>) -> tensor<15x8xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<15x4096xbf16, #aten.layout<device = "cuda:0">>, tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>) -> tensor<15x8xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i0 : 15, %i1 : 8) outs(%o : tensor<15x8xbf16, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %m[%i0, %i1] : tensor<15x8xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.neg %l : bf16
    loops.store %n, %o[%i0, %i1] : tensor<15x8xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<15x8xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// A product so small that a launch takes longer.
// CHECK:      loops.extern pure "aten.mm.default"(%x, %w)
func.func @main(%x : tensor<16x24xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<24x7xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x7xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<16x24xbf16, #aten.layout<device = "cuda:0">>, tensor<24x7xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i0 : 16, %i1 : 7) outs(%o : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %m[%i0, %i1] : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.neg %l : bf16
    loops.store %n, %o[%i0, %i1] : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// f32, whose products take no vectors.
// CHECK:      loops.extern pure "aten.mm.default"(%x, %w)
func.func @main(%x : tensor<512x512xf32, #aten.layout<device = "cuda:0">>, %w : tensor<512x127xf32, #aten.layout<device = "cuda:0">>) -> tensor<512x127xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<512x512xf32, #aten.layout<device = "cuda:0">>, tensor<512x127xf32, #aten.layout<device = "cuda:0">>) -> tensor<512x127xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i0 : 512, %i1 : 127) outs(%o : tensor<512x127xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %m[%i0, %i1] : tensor<512x127xf32, #aten.layout<device = "cuda:0">>
    %n = elem.neg %l : f32
    loops.store %n, %o[%i0, %i1] : tensor<512x127xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<512x127xf32, #aten.layout<device = "cuda:0">>
}

// -----

// A processor.
// CHECK:      loops.extern pure "aten.mm.default"(%x, %w)
func.func @main(%x : tensor<512x512xbf16>, %w : tensor<512x127xbf16>) -> tensor<512x127xbf16> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<512x512xbf16>, tensor<512x127xbf16>) -> tensor<512x127xbf16>
  func.return %m : tensor<512x127xbf16>
}
