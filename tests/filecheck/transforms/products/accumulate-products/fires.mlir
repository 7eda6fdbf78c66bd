// RUN: cuesta-opt %s -p accumulate-products --split-input-file

// CHECK:      %[[M:.*]] = aten.mm.default(%a, %b)
// CHECK-NEXT: %[[N:.*]] = aten.addmm.default(%[[M]], %c, %d)
// CHECK-NEXT: func.return %[[N]]
func.func @main(%a : tensor<4x8xf32>, %b : tensor<8x5xf32>, %c : tensor<4x3xf32>, %d : tensor<3x5xf32>) -> tensor<4x5xf32> {
  %m = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %n = aten.mm.default(%c, %d) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %s = aten.add.Tensor(%m, %n) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %s : tensor<4x5xf32>
}

// -----
// Three of them; a product with a bias comes first, wherever it stands.
// CHECK:      %[[M:.*]] = aten.addmm.default(%v, %a, %b)
// CHECK-NEXT: %[[N:.*]] = aten.addmm.default(%[[M]], %c, %d)
// CHECK-NEXT: %[[O:.*]] = aten.addmm.default(%[[N]], %a, %b)
// CHECK-NEXT: func.return %[[O]]
func.func @main(%v : tensor<5xf64>, %a : tensor<4x8xf64>, %b : tensor<8x5xf64>, %c : tensor<4x3xf64>, %d : tensor<3x5xf64>) -> tensor<4x5xf64> {
  %n = aten.mm.default(%c, %d) : (tensor<4x3xf64>, tensor<3x5xf64>) -> tensor<4x5xf64>
  %m = aten.addmm.default(%v, %a, %b) : (tensor<5xf64>, tensor<4x8xf64>, tensor<8x5xf64>) -> tensor<4x5xf64>
  %s = aten.add.Tensor(%n, %m) : (tensor<4x5xf64>, tensor<4x5xf64>) -> tensor<4x5xf64>
  %o = aten.mm.default(%a, %b) : (tensor<4x8xf64>, tensor<8x5xf64>) -> tensor<4x5xf64>
  %t = aten.add.Tensor(%o, %s) : (tensor<4x5xf64>, tensor<4x5xf64>) -> tensor<4x5xf64>
  func.return %t : tensor<4x5xf64>
}

// -----
// Through views, as linear layers have them; the sum is viewed the same way.
// CHECK:      %[[M:.*]] = aten.mm.default(%a, %b)
// CHECK-NEXT: %[[N:.*]] = aten.addmm.default(%[[M]], %c, %d)
// CHECK-NEXT: %[[V:.*]] = aten.view.default(%[[N]], [2, 2, 5])
// CHECK-NEXT: func.return %[[V]]
func.func @main(%a : tensor<4x8xbf16>, %b : tensor<8x5xbf16>, %c : tensor<4x3xbf16>, %d : tensor<3x5xbf16>) -> tensor<2x2x5xbf16> {
  %m = aten.mm.default(%a, %b) : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xbf16>
  %p = aten.view.default(%m, [2, 2, 5]) : (tensor<4x5xbf16>) -> tensor<2x2x5xbf16>
  %n = aten.mm.default(%c, %d) : (tensor<4x3xbf16>, tensor<3x5xbf16>) -> tensor<4x5xbf16>
  %q = aten.view.default(%n, [2, 2, 5]) : (tensor<4x5xbf16>) -> tensor<2x2x5xbf16>
  %s = aten.add.Tensor(%p, %q) : (tensor<2x2x5xbf16>, tensor<2x2x5xbf16>) -> tensor<2x2x5xbf16>
  func.return %s : tensor<2x2x5xbf16>
}

// -----
// Batched.
// CHECK: aten.baddbmm.default(%{{.*}}, %c, %d)
func.func @main(%a : tensor<3x4x8xf32>, %b : tensor<3x8x5xf32>, %c : tensor<3x4x3xf32>, %d : tensor<3x3x5xf32>) -> tensor<3x4x5xf32> {
  %m = aten.bmm.default(%a, %b) : (tensor<3x4x8xf32>, tensor<3x8x5xf32>) -> tensor<3x4x5xf32>
  %n = aten.bmm.default(%c, %d) : (tensor<3x4x3xf32>, tensor<3x3x5xf32>) -> tensor<3x4x5xf32>
  %s = aten.add.Tensor(%m, %n) : (tensor<3x4x5xf32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
  func.return %s : tensor<3x4x5xf32>
}

// -----
// Products whose results are wider than their factors, onto each other, and onto one of f32 factors.
// CHECK:      %[[M:.*]] = aten.mm.dtype(%a, %b, torch.float32)
// CHECK-NEXT: %[[N:.*]] = aten.addmm.dtype(%[[M]], %c, %d, torch.float32)
// CHECK-NEXT: %[[O:.*]] = aten.addmm.default(%[[N]], %x, %y)
// CHECK-NEXT: func.return %[[O]]
func.func @main(%a : tensor<4x8xbf16>, %b : tensor<8x5xbf16>, %c : tensor<4x3xf16>, %d : tensor<3x5xf16>, %x : tensor<4x3xf32>, %y : tensor<3x5xf32>) -> tensor<4x5xf32> {
  %m = aten.mm.dtype(%a, %b, torch.float32) : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
  %n = aten.mm.dtype(%c, %d, torch.float32) : (tensor<4x3xf16>, tensor<3x5xf16>) -> tensor<4x5xf32>
  %s = aten.add.Tensor(%m, %n) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %o = aten.mm.default(%x, %y) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %t = aten.add.Tensor(%s, %o) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %t : tensor<4x5xf32>
}

// -----
// Scaled, and taken away: from either side.
// CHECK:      %[[M:.*]] = aten.mm.default(%a, %b)
// CHECK-NEXT: %[[N:.*]] = aten.addmm.default(%[[M]], %c, %d, alpha = 2.5)
// CHECK-NEXT: %[[O:.*]] = aten.addmm.default(%[[N]], %a, %b, beta = -1)
// CHECK-NEXT: %[[P:.*]] = aten.addmm.default(%[[O]], %c, %d, alpha = -3)
// CHECK-NEXT: func.return %[[P]]
func.func @main(%a : tensor<4x8xf32>, %b : tensor<8x5xf32>, %c : tensor<4x3xf32>, %d : tensor<3x5xf32>) -> tensor<4x5xf32> {
  %m = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %n = aten.mm.default(%c, %d) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %s = aten.add.Tensor(%m, %n, alpha = 2.5) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %o = aten.mm.default(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %t = aten.sub.Tensor(%o, %s) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %p = aten.mm.default(%c, %d) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %u = aten.sub.Tensor(%t, %p, alpha = 3) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %u : tensor<4x5xf32>
}
