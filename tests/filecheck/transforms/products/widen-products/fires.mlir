// RUN: cuesta-opt %s -p widen-products --split-input-file

// A layer: its casts keep what lies transposed as it lies; an argument that two products read is cast once.
// CHECK:      [[X:%.+]] = aten._to_copy.default(%x, dtype = torch.float32) : (tensor<64x32xbf16>) -> tensor<64x32xf32>
// CHECK-NEXT: [[W:%.+]] = aten._to_copy.default(%w, dtype = torch.float32) : (tensor<32x48xbf16, #aten.layout<strides = [1, 32]>>) -> tensor<32x48xf32, #aten.layout<strides = [1, 32]>>
// CHECK-NEXT: [[P:%.+]] = aten.mm.default([[X]], [[W]]) : (tensor<64x32xf32>, tensor<32x48xf32, #aten.layout<strides = [1, 32]>>) -> tensor<64x48xf32>
// CHECK-NEXT: [[Y:%.+]] = aten._to_copy.default([[P]], dtype = torch.bfloat16) : (tensor<64x48xf32>) -> tensor<64x48xbf16>
// CHECK-NEXT: [[B:%.+]] = aten._to_copy.default(%b, dtype = torch.float32) : (tensor<48xbf16>) -> tensor<48xf32>
// CHECK-NEXT: [[Q:%.+]] = aten.addmm.default([[B]], [[X]], [[W]], alpha = 2) :
// CHECK-NEXT: [[Z:%.+]] = aten._to_copy.default([[Q]], dtype = torch.bfloat16)
// CHECK-NEXT: func.return [[Y]], [[Z]]
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 132, wide_bf16 = 6.0>} {
  func.func @main(%x : tensor<64x32xbf16>, %w : tensor<32x48xbf16, #aten.layout<strides = [1, 32]>>, %b : tensor<48xbf16>) -> (tensor<64x48xbf16>, tensor<64x48xbf16>) {
    %y = aten.mm.default(%x, %w) : (tensor<64x32xbf16>, tensor<32x48xbf16, #aten.layout<strides = [1, 32]>>) -> tensor<64x48xbf16>
    %z = aten.addmm.default(%b, %x, %w, alpha = 2) : (tensor<48xbf16>, tensor<64x32xbf16>, tensor<32x48xbf16, #aten.layout<strides = [1, 32]>>) -> tensor<64x48xbf16>
    func.return %y, %z : tensor<64x48xbf16>, tensor<64x48xbf16>
  }
}

// -----

// Batches of f16, one factor of which is expanded: its cast lies in order. Sizes that only the call knows.
// CHECK:      [[A:%.+]] = aten._to_copy.default(%a, dtype = torch.float32) : (tensor<?x64x32xf16, #aten.layout<sizes = [s0, 64, 32], strides = [0, 32, 1]>>) -> tensor<?x64x32xf32, #aten.layout<sizes = [s0, 64, 32]>>
// CHECK-NEXT: aten._to_copy.default(%b, dtype = torch.float32)
// CHECK-NEXT: aten.bmm.default([[A]],
// CHECK-NEXT: aten._to_copy.default({{.*}}, dtype = torch.float16)
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 132, wide_f16 = 6.0>} {
  func.func @main(%a : tensor<?x64x32xf16, #aten.layout<sizes = [s0, 64, 32], strides = [0, 32, 1]>>, %b : tensor<?x32x48xf16, #aten.layout<sizes = [s0, 32, 48], strides = [1536, 48, 1]>>) -> tensor<?x64x48xf16, #aten.layout<sizes = [s0, 64, 48], strides = [3072, 48, 1]>> attributes {sym.symbols = #sym.symbols<s0 in [1, inf]>} {
    %y = aten.bmm.default(%a, %b) : (tensor<?x64x32xf16, #aten.layout<sizes = [s0, 64, 32], strides = [0, 32, 1]>>, tensor<?x32x48xf16, #aten.layout<sizes = [s0, 32, 48], strides = [1536, 48, 1]>>) -> tensor<?x64x48xf16, #aten.layout<sizes = [s0, 64, 48], strides = [3072, 48, 1]>>
    func.return %y : tensor<?x64x48xf16, #aten.layout<sizes = [s0, 64, 48], strides = [3072, 48, 1]>>
  }
}

// -----

// The gradients of a convolution, two of three, and itself.
// CHECK:      aten._to_copy.default(%x, dtype = torch.float32)
// CHECK:      aten.convolution.default({{.*}}) : (tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>, tensor<16xf32>) -> tensor<2x16x7x7xf32>
// CHECK-NEXT: [[Y:%.+]] = aten._to_copy.default({{.*}}, dtype = torch.bfloat16)
// CHECK-NEXT: [[G:%.+]] = aten._to_copy.default(%g, dtype = torch.float32)
// CHECK-NEXT: [[N:%.+]], [[P:%.+]], [[Q:%.+]] = aten.convolution_backward.default([[G]],
// CHECK-NEXT: [[V:%.+]] = aten._to_copy.default([[P]], dtype = torch.bfloat16) : (tensor<16x8x3x3xf32>) -> tensor<16x8x3x3xbf16>
// CHECK-NEXT: [[C:%.+]] = aten._to_copy.default([[Q]], dtype = torch.bfloat16) : (tensor<16xf32>) -> tensor<16xbf16>
// CHECK-NEXT: func.return [[Y]], [[V]], [[C]]
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 132, wide_bf16 = 6.0>} {
  func.func @main(%x : tensor<2x8x9x9xbf16>, %w : tensor<16x8x3x3xbf16>, %b : tensor<16xbf16>, %g : tensor<2x16x7x7xbf16>) -> (tensor<2x16x7x7xbf16>, tensor<16x8x3x3xbf16>, tensor<16xbf16>) {
    %y = aten.convolution.default(%x, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x8x9x9xbf16>, tensor<16x8x3x3xbf16>, tensor<16xbf16>) -> tensor<2x16x7x7xbf16>
    %n, %v, %c = aten.convolution_backward.default(%g, %x, %w, [16], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [false, true, true]) : (tensor<2x16x7x7xbf16>, tensor<2x8x9x9xbf16>, tensor<16x8x3x3xbf16>) -> (!aten.literal, tensor<16x8x3x3xbf16>, tensor<16xbf16>)
    func.return %y, %v, %c : tensor<2x16x7x7xbf16>, tensor<16x8x3x3xbf16>, tensor<16xbf16>
  }
}

// -----

// Images of a size that only the call knows, channels last, and so is their cast.
// CHECK: aten._to_copy.default(%x, dtype = torch.float32) : ({{.*}}) -> tensor<2x8x?x?xf32, #aten.layout<sizes = [2, 8, s0, s0], strides = [{{.*}}, 1, {{.*}}, 8]>>
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 132, wide_bf16 = 6.0>} {
  func.func @main(%x : tensor<2x8x?x?xbf16, #aten.layout<sizes = [2, 8, s0, s0], strides = [8 * s0 * s0, 1, 8 * s0, 8]>>, %w : tensor<16x8x1x1xbf16>) -> tensor<2x16x?x?xbf16, #aten.layout<sizes = [2, 16, s0, s0], strides = [16 * s0 * s0, 1, 16 * s0, 16]>> attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {
    %y = aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x8x?x?xbf16, #aten.layout<sizes = [2, 8, s0, s0], strides = [8 * s0 * s0, 1, 8 * s0, 8]>>, tensor<16x8x1x1xbf16>) -> tensor<2x16x?x?xbf16, #aten.layout<sizes = [2, 16, s0, s0], strides = [16 * s0 * s0, 1, 16 * s0, 16]>>
    func.return %y : tensor<2x16x?x?xbf16, #aten.layout<sizes = [2, 16, s0, s0], strides = [16 * s0 * s0, 1, 16 * s0, 16]>>
  }
}

// -----

// A product that is accumulated onto another is so in f32; what reads the first besides gets it rounded.
// CHECK:      [[P:%.+]] = aten.mm.default({{.*}}) : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
// CHECK-NEXT: [[R:%.+]] = aten._to_copy.default([[P]], dtype = torch.bfloat16)
// CHECK-NEXT: aten.addmm.default([[P]], {{.*}}) : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
// CHECK-NEXT: [[Y:%.+]] = aten._to_copy.default({{.*}}, dtype = torch.bfloat16)
// CHECK-NEXT: func.return [[R]], [[Y]]
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 132, wide_bf16 = 6.0>} {
  func.func @main(%x : tensor<64x32xbf16>, %w : tensor<32x32xbf16>) -> (tensor<64x32xbf16>, tensor<64x32xbf16>) {
    %p = aten.mm.default(%x, %w) : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xbf16>
    %y = aten.addmm.default(%p, %x, %w) : (tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xbf16>
    func.return %p, %y : tensor<64x32xbf16>, tensor<64x32xbf16>
  }
}
