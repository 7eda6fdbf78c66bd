// RUN: cuesta-opt %s -p join-products --split-input-file
// ROUNDTRIP

// Dropout on the weights: a draw of a key is one number at a point, and goes where its reader goes. The scale, which all
// points share, is taken out of the sum; the mask is none.
// CHECK-NOT:  loops.extern
// CHECK:      %o = loops.nest (%[[H:[0-9]+]] : 2, %[[I:[0-9]+]] : 24, %[[D:[0-9]+]] : 16)
// CHECK-SAME: depth = 64
// CHECK:        loops.reduce maximum
// CHECK:        loops.reduce sum (%{{.*}} : 40)
// CHECK:        loops.reduce sum (%[[K:[0-9]+]] : 40)
// CHECK:          %[[PLACE:[0-9]+]] = loops.index [%[[H]] * 960 + %[[I]] * 40 + %[[K]]] : i64
// CHECK:          elem.random_word 1099511627776 of %{{[0-9]+}}, %[[PLACE]] : i64
// CHECK:          loops.load %v[%[[H]], %[[K]], %[[D]]]
// CHECK:        elem.mul
// CHECK:        elem.div
// CHECK-NOT:  loops.nest
func.func @main(%key : tensor<1xi64, #aten.layout<device = "cuda:0">>, %q : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>, %v : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">> {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%0 : 2, %1 : 24) outs(%3 : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>) {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.load %s[%0, %1, %6] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %8 = elem.convert %7 : bf16 to f32
      %9 = elem.mul %8, %4 : f32
      loops.yield %9 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      loops.yield %12 : f32
    } : f32
    loops.for (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.div %12, %6 : f32
      %14 = loops.load %key[0] : tensor<1xi64, #aten.layout<device = "cuda:0">>
      %15 = loops.index [%0 * 960 + %1 * 40 + %7] : i64
      %16 = elem.random_word 1099511627776 of %14, %15 : i64
      %17 = elem.constant 3865470567 : i64
      %18 = elem.lt %16, %17 : i64
      %19 = elem.convert %18 : i1 to f32
      %20 = elem.mul %13, %19 : f32
      %21 = elem.constant 1.125 : f32
      %22 = elem.mul %20, %21 : f32
      %23 = elem.convert %22 : f32 to bf16
      loops.store %23, %3[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %o = loops.extern pure "aten.bmm.default"(%p, %v) : (tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>, tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %o : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
}
