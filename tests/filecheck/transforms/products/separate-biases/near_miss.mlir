// RUN: cuesta-opt %s -p separate-biases --split-input-file

// The CPU's library adds a bias for nothing.
// CHECK: loops.extern pure "aten.addmm.default"(%b, %x, %w
func.func @main(%x : tensor<4x3xf32>, %w : tensor<3x5xf32>, %b : tensor<5xf32>) -> (tensor<4x5xf32>) {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w) : (tensor<5xf32>, tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32>
  }
  func.return %y : tensor<4x5xf32>
}

// -----

// No nest follows.
// CHECK: loops.extern pure "aten.addmm.default"(%b, %x, %w
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<5xf32, #aten.layout<device = "cuda:0">>) -> (tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w) : (tensor<5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  func.return %c : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Somebody sees the sum.
// CHECK: loops.extern pure "aten.addmm.default"(%b, %x, %w
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<5xf32, #aten.layout<device = "cuda:0">>) -> (tensor<4x5xf32, #aten.layout<device = "cuda:0">>, tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w) : (tensor<5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y, %c : tensor<4x5xf32, #aten.layout<device = "cuda:0">>, tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// The sum is taken 0 times: libraries differ in what that is of infinities.
// CHECK: loops.extern pure "aten.addmm.default"(%b, %x, %w
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<5xf32, #aten.layout<device = "cuda:0">>) -> (tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w, alpha = 0.0) : (tensor<5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// What is added is a matrix.
// CHECK: loops.extern pure "aten.addmm.default"(%b, %x, %w
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) -> (tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w) : (tensor<4x5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// In bf16 the product would be rounded before the bias is added.
// CHECK: loops.extern pure "aten.addmm.default"(%b, %x, %w
func.func @main(%x : tensor<4x3xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<5xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<4x5xbf16, #aten.layout<device = "cuda:0">>) {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w) : (tensor<5xbf16, #aten.layout<device = "cuda:0">>, tensor<4x3xbf16, #aten.layout<device = "cuda:0">>, tensor<3x5xbf16, #aten.layout<device = "cuda:0">>) -> tensor<4x5xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xbf16, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xbf16, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x5xbf16, #aten.layout<device = "cuda:0">>
}
