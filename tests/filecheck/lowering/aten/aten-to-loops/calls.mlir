// RUN: cuesta-opt %s -p aten-to-loops

// A pointwise op with a broadcast operand and a number is one nest.
// CHECK-LABEL: func.func @main
func.func @main(%x : tensor<4x8xbf16>, %b : tensor<8xf32>, %i : tensor<4xi64>, %w : tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<8x4xf32, #aten.layout<strides = [1, 8]>>, tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %add = loops.nest ([[I:%.+]] : 4, [[J:%.+]] : 8) outs([[OUT:%.+]]: tensor<4x8xf32>) {
  // CHECK-NEXT: [[A:%.+]] = loops.load %x[[[I]], [[J]]] : tensor<4x8xbf16>
  // CHECK-NEXT: [[WIDE:%.+]] = elem.convert [[A]] : bf16 to f32
  // CHECK-NEXT: [[B:%.+]] = loops.load %b[[[J]]] : tensor<8xf32>
  // CHECK-NEXT: [[TWO:%.+]] = elem.constant 2.0 : f32
  // CHECK-NEXT: [[SUM:%.+]] = elem.multiply_add [[B]], [[TWO]], [[WIDE]] : f32
  // CHECK-NEXT: loops.store [[SUM]], [[OUT]][[[I]], [[J]]] : tensor<4x8xf32>
  %add = aten.add.Tensor(%x, %b, alpha = 2) : (tensor<4x8xbf16>, tensor<8xf32>) -> tensor<4x8xf32>

  // A view is not computed.
  // CHECK: %t = loops.view %add by (d0, d1) -> (d1, d0)
  %t = aten.t.default(%add) : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.layout<strides = [1, 8]>>

  // An index that is data is checked.
  // CHECK: %rows = loops.nest
  // CHECK: loops.bound {{%.+}}, 8 : i64
  %rows = aten.embedding.default(%w, %i) : (tensor<8x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>

  // What has no rule is called.
  // CHECK: %mm = loops.extern pure "aten.mm.default"(%add, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %mm = aten.mm.default(%add, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  func.return %add, %t, %rows, %mm : tensor<4x8xf32>, tensor<8x4xf32, #aten.layout<strides = [1, 8]>>, tensor<4x8xf32>, tensor<4x8xf32>
}
