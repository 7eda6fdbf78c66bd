// RUN: cuesta-opt %s -p join-products --split-input-file
// ROUNDTRIP

// Scores, softmax, and the product with the values: one nest, which stores neither scores nor weights. The quotient is
// taken out of the sum; its exponentials are rounded as factors.
// CHECK-NOT:  loops.extern
// CHECK:      %o = loops.nest (%[[H:[0-9]+]] : 2, %[[I:[0-9]+]] : 24, %[[D:[0-9]+]] : 16)
// CHECK-SAME: schedule #loops.schedule<rows = 32, columns = 16, depth = 64, warps = 4, stages = 3>
// CHECK:        %[[M:[0-9]+]] = loops.reduce maximum (%[[J:[0-9]+]] : 40)
// CHECK-NEXT:     %[[S:[0-9]+]] = loops.reduce sum (%[[E:[^ ]+]] : 16)
// CHECK-NEXT:       loops.load %q[%[[H]], %[[I]], %[[E]]]
// CHECK:            loops.load %k[%[[H]], %[[E]], %[[J]]]
// CHECK:        %[[L:[0-9]+]] = loops.reduce sum (%{{.*}} : 40)
// CHECK:          elem.exp
// CHECK-NEXT:     loops.yield
// CHECK:        %[[A:[0-9]+]] = loops.reduce sum (%[[K:[0-9]+]] : 40)
// CHECK:          %[[X:[0-9]+]] = elem.exp
// CHECK-NEXT:     elem.convert %[[X]] : f32 to bf16
// CHECK:          loops.load %v[%[[H]], %[[K]], %[[D]]]
// CHECK:        elem.div %[[A]], %[[L]] : f32
// CHECK-NOT:  loops.nest
func.func @main(%q : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>, %v : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">> {
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
      %14 = elem.convert %13 : f32 to bf16
      loops.store %14, %3[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %o = loops.extern pure "aten.bmm.default"(%p, %v) : (tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>, tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %o : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
}
