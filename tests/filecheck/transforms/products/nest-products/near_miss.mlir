// RUN: cuesta-opt %s -p nest-products --split-input-file

// Few rows: the copy costs more than it gains. Fewer columns than a vector has lanes, and columns that are no whole vectors.
// A factor of columns that is larger than what caches hold. A sum that is taken 0 times. Other types. A size that the call knows.
// CHECK-NOT: loops.nest
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%few : tensor<24x512xf32>, %x : tensor<512x512xf32>, %n : tensor<512x8xf32>, %o : tensor<512x40xf32>, %l : tensor<512x4096xf32>, %b : tensor<512xf32>, %h : tensor<512x512xbf16>, %d : tensor<512x512xf64>, %u : tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>) -> (tensor<24x512xf32>, tensor<512x8xf32>, tensor<512x40xf32>, tensor<512x4096xf32>, tensor<512x512xf32>, tensor<512x512xbf16>, tensor<512x512xf64>, tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, 640]>} {
    %c0 = loops.extern pure "aten.mm.default"(%few, %x) : (tensor<24x512xf32>, tensor<512x512xf32>) -> tensor<24x512xf32>
    %c1 = loops.extern pure "aten.mm.default"(%x, %n) : (tensor<512x512xf32>, tensor<512x8xf32>) -> tensor<512x8xf32>
    %c2 = loops.extern pure "aten.mm.default"(%x, %o) : (tensor<512x512xf32>, tensor<512x40xf32>) -> tensor<512x40xf32>
    %c3 = loops.extern pure "aten.mm.default"(%x, %l) : (tensor<512x512xf32>, tensor<512x4096xf32>) -> tensor<512x4096xf32>
    %c4 = loops.extern pure "aten.addmm.default"(%b, %x, %x, alpha = 0) : (tensor<512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %c5 = loops.extern pure "aten.mm.default"(%h, %h) : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
    %c6 = loops.extern pure "aten.mm.default"(%d, %d) : (tensor<512x512xf64>, tensor<512x512xf64>) -> tensor<512x512xf64>
    %c7 = loops.extern pure "aten.mm.default"(%u, %x) : (tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>, tensor<512x512xf32>) -> tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>
    func.return %c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7 : tensor<24x512xf32>, tensor<512x8xf32>, tensor<512x40xf32>, tensor<512x4096xf32>, tensor<512x512xf32>, tensor<512x512xbf16>, tensor<512x512xf64>, tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>
  }
}

// -----

// A result that lies column by column.
// CHECK-NOT: loops.nest
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<512x512xf32>) -> tensor<512x512xf32, #aten.layout<strides = [1, 512]>> {
    %y = loops.extern pure "aten.mm.default"(%x, %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32, #aten.layout<strides = [1, 512]>>
    func.return %y : tensor<512x512xf32, #aten.layout<strides = [1, 512]>>
  }
}

// -----

// A machine on which nobody measured that our own kernels are faster; one on which another library is.
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<512x512xf32>) -> tensor<512x512xf32> {
  %y = loops.extern pure "aten.mm.default"(%x, %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %y : tensor<512x512xf32>
}

// -----

// CHECK-NOT: loops.nest
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, onednn = 1.5, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<512x512xf32>) -> tensor<512x512xf32> {
    %y = loops.extern pure "aten.mm.default"(%x, %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    func.return %y : tensor<512x512xf32>
  }
}

// -----

// On a GPU.
// CHECK-NOT: loops.nest
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<512x512xf32, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">> {
    %y = loops.extern pure "aten.mm.default"(%x, %x) : (tensor<512x512xf32, #aten.layout<device = "cuda:0">>, tensor<512x512xf32, #aten.layout<device = "cuda:0">>) -> tensor<512x512xf32, #aten.layout<device = "cuda:0">>
    func.return %y : tensor<512x512xf32, #aten.layout<device = "cuda:0">>
  }
}

// -----

// A frozen weight: too few rows for a block, and one that the program changes.
// CHECK-NOT: loops.nest
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<7x512xf32>, %y : tensor<8x512xf32>, %w : tensor<512x512xf32>, %u : tensor<512x512xf32>) -> (tensor<7x512xf32>, tensor<8x512xf32>, tensor<512x512xf32>) attributes {aten.frozen = [2 : i64, 3 : i64], aten.writes_to = [3 : i64]} {
    %a = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<7x512xf32>, tensor<512x512xf32>) -> tensor<7x512xf32>
    %b = loops.extern pure "aten.mm.default"(%y, %u) : (tensor<8x512xf32>, tensor<512x512xf32>) -> tensor<8x512xf32>
    func.return %a, %b, %w : tensor<7x512xf32>, tensor<8x512xf32>, tensor<512x512xf32>
  }
}
