// RUN: cuesta-opt %s -p widen-products --split-input-file

// Two rows: the casts of a weight take longer than the product. A type that has a library; one that has none, of no
// elements; a result that is wider than the factors; f32.
// CHECK-NOT: _to_copy
// CHECK:     func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 132, wide_bf16 = 6.0>} {
  func.func @main(%a : tensor<2x512xbf16>, %b : tensor<512x512xbf16>, %c : tensor<64x64xf16>, %d : tensor<0x512xbf16>, %e : tensor<64x64xf32>) -> (tensor<2x512xbf16>, tensor<64x64xf16>, tensor<0x512xbf16>, tensor<512x512xf32>, tensor<64x64xf32>) {
    %1 = aten.mm.default(%a, %b) : (tensor<2x512xbf16>, tensor<512x512xbf16>) -> tensor<2x512xbf16>
    %2 = aten.mm.default(%c, %c) : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    %3 = aten.mm.default(%d, %b) : (tensor<0x512xbf16>, tensor<512x512xbf16>) -> tensor<0x512xbf16>
    %4 = aten.mm.dtype(%b, %b, torch.float32) : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xf32>
    %5 = aten.mm.default(%e, %e) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    func.return %1, %2, %3, %4, %5 : tensor<2x512xbf16>, tensor<64x64xf16>, tensor<0x512xbf16>, tensor<512x512xf32>, tensor<64x64xf32>
  }
}

// -----

// A machine that says nothing of it.
// CHECK-NOT: _to_copy
// CHECK:     func.return
func.func @main(%b : tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %1 = aten.mm.default(%b, %b) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  func.return %1 : tensor<64x64xbf16>
}

// -----

// A GPU.
// CHECK-NOT: _to_copy
// CHECK:     func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 132, wide_bf16 = 6.0>} {
  func.func @main(%b : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x64xbf16, #aten.layout<device = "cuda:0">> {
    %1 = aten.mm.default(%b, %b) : (tensor<64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x64xbf16, #aten.layout<device = "cuda:0">>
    func.return %1 : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>
  }
}
