// RUN: cuesta-opt %s -p choose-libraries --split-input-file

// A product whose right factor is a transposed weight, which is read as it lies; a bias; another that lies by rows.
// CHECK:       host.func @main
// CHECK-NEXT:    %y = host.extern pure "mkldnn::_linear_pointwise.default"(%x, %w, %b, "none", [], "")
// CHECK-NEXT:    [[T:%.+]] = host.reinterpret %v offset 0 : tensor<512x256xf32> to tensor<256x512xf32, #aten.layout<strides = [1, 256]>>
// CHECK-NEXT:    %z = host.extern pure "mkldnn::_linear_pointwise.default"(%y, [[T]], none, "none", [], "")
// CHECK-NEXT:    host.return %z
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, onednn = 1.3, processors = 132>} {
  host.func @main(%x : tensor<128x256xf32>, %w : tensor<512x256xf32>, %b : tensor<512xf32>, %v : tensor<512x256xf32>) -> (tensor<128x256xf32>) {
    %t = host.reinterpret %w offset 0 : tensor<512x256xf32> to tensor<256x512xf32, #aten.layout<strides = [1, 256]>>
    %y = host.extern pure "aten.addmm.default"(%b, %x, %t) : (tensor<512xf32>, tensor<128x256xf32>, tensor<256x512xf32, #aten.layout<strides = [1, 256]>>) -> tensor<128x512xf32>
    %z = host.extern pure "aten.mm.default"(%y, %v) : (tensor<128x512xf32>, tensor<512x256xf32>) -> tensor<128x256xf32>
    host.return %z : tensor<128x256xf32>
  }
}

// -----
// A gradient of a weight: its left factor is copied, which pays where there are many columns (%p), and not where there are
// few (%q).
// CHECK:       host.func @main
// CHECK-NEXT:    host.reinterpret %x offset 0
// CHECK-NEXT:    %p = host.extern pure "mkldnn::_linear_pointwise.default"(%g,
// CHECK-NEXT:    %q = host.extern pure "aten.mm.default"(%g, %y)
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, onednn = 1.3, processors = 132>} {
  host.func @main(%g : tensor<512x512xf32, #aten.layout<strides = [1, 512]>>, %x : tensor<512x1024xf32>, %y : tensor<512x128xf32>) -> (tensor<512x1024xf32>, tensor<512x128xf32>) {
    %p = host.extern pure "aten.mm.default"(%g, %x) : (tensor<512x512xf32, #aten.layout<strides = [1, 512]>>, tensor<512x1024xf32>) -> tensor<512x1024xf32>
    %q = host.extern pure "aten.mm.default"(%g, %y) : (tensor<512x512xf32, #aten.layout<strides = [1, 512]>>, tensor<512x128xf32>) -> tensor<512x128xf32>
    host.return %p, %q : tensor<512x1024xf32>, tensor<512x128xf32>
  }
}

// -----
// Near misses: small; a factor with gaps, a spread one; a matrix that is added, a scaled one, one number; f64; a size that
// is known when it runs.
// CHECK-NOT: mkldnn
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, onednn = 1.3, processors = 132>} {
  host.func @main(%s : tensor<16x16xf32>, %x : tensor<512x512xf32>, %gap : tensor<512x512xf32, #aten.layout<strides = [1024, 1]>>, %row : tensor<512x512xf32, #aten.layout<strides = [0, 1]>>, %b : tensor<512xf32>, %one : tensor<1xf32>, %d : tensor<512x512xf64>, %n : !sym.int<s0>, %u : tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>) -> () attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
    %c0 = host.extern pure "aten.mm.default"(%s, %s) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %c1 = host.extern pure "aten.mm.default"(%gap, %x) : (tensor<512x512xf32, #aten.layout<strides = [1024, 1]>>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %c2 = host.extern pure "aten.mm.default"(%x, %row) : (tensor<512x512xf32>, tensor<512x512xf32, #aten.layout<strides = [0, 1]>>) -> tensor<512x512xf32>
    %c3 = host.extern pure "aten.addmm.default"(%x, %x, %x) : (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %c4 = host.extern pure "aten.addmm.default"(%b, %x, %x, beta = 2) : (tensor<512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %c5 = host.extern pure "aten.addmm.default"(%one, %x, %x) : (tensor<1xf32>, tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %c6 = host.extern pure "aten.mm.default"(%d, %d) : (tensor<512x512xf64>, tensor<512x512xf64>) -> tensor<512x512xf64>
    %c7 = host.extern pure "aten.mm.default"(%u, %x) : (tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>, tensor<512x512xf32>) -> tensor<?x512xf32, #aten.layout<sizes = [s0, 512]>>
    host.return
  }
}

// -----
// A machine on which oneDNN is not faster.
// CHECK-NOT: mkldnn
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, processors = 132>} {
  host.func @main(%x : tensor<512x512xf32>) -> (tensor<512x512xf32>) {
    %z = host.extern pure "aten.mm.default"(%x, %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    host.return %z : tensor<512x512xf32>
  }
}
