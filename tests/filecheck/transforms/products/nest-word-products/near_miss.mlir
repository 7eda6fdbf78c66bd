// RUN: cuesta-opt %s -p nest-word-products --split-input-file

// Nobody said that they are faster here.
// CHECK: loops.extern pure "aten.mm.default"
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, products_i8 = 1.1, processors = 132>} {
  func.func @main(%x : tensor<48x64xbf16>, %w : tensor<64x64xbf16>) -> tensor<48x64xbf16> {
    %y = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<48x64xbf16>, tensor<64x64xbf16>) -> tensor<48x64xbf16>
    func.return %y : tensor<48x64xbf16>
  }
}

// -----

// 40 columns are no whole vectors, 33 points no whole words, 3 rows too few; f32 is another pass's; no element.
// CHECK-COUNT-5: loops.extern pure "aten.mm.default"
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products_bf16 = 1.1, processors = 132>} {
  func.func @main(%x : tensor<48x64xbf16>, %w : tensor<64x40xbf16>, %u : tensor<48x33xbf16>, %v : tensor<33x64xbf16>, %r : tensor<3x64xbf16>, %s : tensor<64x64xbf16>, %f : tensor<64x64xf32>, %e : tensor<0x64xbf16>) -> (tensor<48x40xbf16>, tensor<48x64xbf16>, tensor<3x64xbf16>, tensor<64x64xf32>, tensor<0x64xbf16>) {
    %a = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<48x64xbf16>, tensor<64x40xbf16>) -> tensor<48x40xbf16>
    %b = loops.extern pure "aten.mm.default"(%u, %v) : (tensor<48x33xbf16>, tensor<33x64xbf16>) -> tensor<48x64xbf16>
    %c = loops.extern pure "aten.mm.default"(%r, %s) : (tensor<3x64xbf16>, tensor<64x64xbf16>) -> tensor<3x64xbf16>
    %d = loops.extern pure "aten.mm.default"(%f, %f) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %g = loops.extern pure "aten.mm.default"(%e, %s) : (tensor<0x64xbf16>, tensor<64x64xbf16>) -> tensor<0x64xbf16>
    func.return %a, %b, %c, %d, %g : tensor<48x40xbf16>, tensor<48x64xbf16>, tensor<3x64xbf16>, tensor<64x64xf32>, tensor<0x64xbf16>
  }
}

// -----

// Sizes that only the call knows, and a GPU.
// CHECK-COUNT-2: loops.extern pure "aten.mm.default"
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products_bf16 = 1.1, processors = 132>} {
  func.func @main(%n : !sym.int<s0>, %x : tensor<?x64xbf16, #aten.layout<sizes = [s0, 64]>>, %w : tensor<64x64xbf16>, %g : tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<?x64xbf16, #aten.layout<sizes = [s0, 64]>>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) attributes {sym.symbols = #sym.symbols<s0 in [2, 4096]>} {
    %y = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<?x64xbf16, #aten.layout<sizes = [s0, 64]>>, tensor<64x64xbf16>) -> tensor<?x64xbf16, #aten.layout<sizes = [s0, 64]>>
    %h = loops.extern pure "aten.mm.default"(%g, %g) : (tensor<64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x64xbf16, #aten.layout<device = "cuda:0">>
    func.return %y, %h : tensor<?x64xbf16, #aten.layout<sizes = [s0, 64]>>, tensor<64x64xbf16, #aten.layout<device = "cuda:0">>
  }
}

// -----

// What is stored across the columns is not done with the product.
// CHECK:      %m = loops.nest
// CHECK:      %y = loops.nest
// CHECK-NEXT:   loops.load %m
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products_bf16 = 1.1, processors = 132>} {
  func.func @main(%x : tensor<48x64xbf16>, %w : tensor<64x64xbf16>) -> tensor<64x48xbf16> {
    %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<48x64xbf16>, tensor<64x64xbf16>) -> tensor<48x64xbf16>
    %y = loops.nest (%i : 48, %j : 64) outs(%o : tensor<64x48xbf16>) {
      %a = loops.load %m[%i, %j] : tensor<48x64xbf16>
      loops.store %a, %o[%j, %i] : tensor<64x48xbf16>
    }
    func.return %y : tensor<64x48xbf16>
  }
}
