// RUN: cuesta-opt %s -p accumulate-products --split-input-file

// One product is returned as well: its memory cannot take the sum.
// CHECK:     aten.add.Tensor
// CHECK-NOT: aten.addmm
// CHECK:     func.return
func.func @main(%a : tensor<4x8xf32>, %b : tensor<8x5xf32>, %c : tensor<4x3xf32>, %d : tensor<3x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %m = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %n = aten.mm.default(%c, %d) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %s = aten.add.Tensor(%m, %n) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %s, %m : tensor<4x5xf32>, tensor<4x5xf32>
}

// -----
// A product and its double.
// CHECK:     aten.add.Tensor
// CHECK-NOT: aten.addmm
// CHECK:     func.return
func.func @main(%a : tensor<4x8xf32>, %b : tensor<8x5xf32>) -> tensor<4x5xf32> {
  %m = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %s = aten.add.Tensor(%m, %m) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %s : tensor<4x5xf32>
}

// -----
// Taken 0 times; onto something that is no product (it would be copied); of other types; broadcast; of integers.
// CHECK-COUNT-5: aten.add.Tensor
// CHECK-NOT:     aten.addmm
// CHECK:         func.return
func.func @main(%a : tensor<4x8xf32>, %b : tensor<8x5xf32>, %x : tensor<4x5xf32>, %h : tensor<4x8xf16>, %g : tensor<8x5xf16>, %r : tensor<1x8xf32>, %i : tensor<4x8xi64>, %j : tensor<8x5xi64>) -> (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xi64>) {
  %m = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %n = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %s = aten.add.Tensor(%m, %n, alpha = 0) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %o = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %t = aten.add.Tensor(%x, %o) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %p = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %q = aten.mm.default(%h, %g) : (tensor<4x8xf16>, tensor<8x5xf16>) -> tensor<4x5xf16>
  %u = aten.add.Tensor(%p, %q) : (tensor<4x5xf32>, tensor<4x5xf16>) -> tensor<4x5xf32>
  %k = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %l = aten.mm.default(%r, %b) : (tensor<1x8xf32>, tensor<8x5xf32>) -> tensor<1x5xf32>
  %v = aten.add.Tensor(%k, %l) : (tensor<4x5xf32>, tensor<1x5xf32>) -> tensor<4x5xf32>
  %y = aten.mm.default(%i, %j) : (tensor<4x8xi64>, tensor<8x5xi64>) -> tensor<4x5xi64>
  %z = aten.mm.default(%i, %j) : (tensor<4x8xi64>, tensor<8x5xi64>) -> tensor<4x5xi64>
  %w = aten.add.Tensor(%y, %z) : (tensor<4x5xi64>, tensor<4x5xi64>) -> tensor<4x5xi64>
  func.return %s, %t, %u, %v, %w : tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xi64>
}

// -----
// One is viewed, the other is not of that shape to begin with.
// CHECK:     aten.add.Tensor
// CHECK-NOT: aten.addmm
// CHECK:     func.return
func.func @main(%a : tensor<4x8xf32>, %b : tensor<8x4xf32>, %c : tensor<2x3xf32>, %d : tensor<3x8xf32>) -> tensor<2x8xf32> {
  %m = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %p = aten.view.default(%m, [2, 8]) : (tensor<4x4xf32>) -> tensor<2x8xf32>
  %n = aten.mm.default(%c, %d) : (tensor<2x3xf32>, tensor<3x8xf32>) -> tensor<2x8xf32>
  %s = aten.add.Tensor(%p, %n) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  func.return %s : tensor<2x8xf32>
}
