// RUN: cuesta-opt %s -p carry-reductions --split-input-file
// ROUNDTRIP

// Forty points, sixteen at a time: points beyond the end read nothing, are no maximum, and add nothing. What is carried
// is rescaled to the greatest so far.
// CHECK:        %[[M:[0-9]+]], %[[L:[0-9]+]], %[[A:[0-9]+]] = loops.fold (%c : 3) from (%{{.*}}) carries (%[[MM:[0-9]+]]: f32, %[[LL:[0-9]+]]: f32, %[[AA:[0-9]+]]: f32) {
// CHECK:          loops.reduce maximum (%j : 16)
// CHECK:            loops.load %k[%{{.*}}, %{{.*}}, %c * 16 + %j] if
// CHECK:          %[[NOW:[0-9]+]] = elem.maximum %[[MM]], %{{.*}} : f32
// CHECK:          %[[F:[0-9]+]] = elem.exp
// CHECK:          %[[OWN:[0-9]+]] = loops.reduce sum (%j : 16)
// CHECK:          %[[BEFORE:[0-9]+]] = elem.mul %[[LL]], %[[F]] : f32
// CHECK-NEXT:     %[[SUM:[0-9]+]] = elem.add %[[BEFORE]], %[[OWN]] : f32
// CHECK:          loops.reduce sum (%j : 16)
// CHECK:            loops.load %v[%{{.*}}, %c * 16 + %j, %{{.*}}] if
// CHECK:          loops.carry %[[NOW]], %[[SUM]], %{{.*}} : f32, f32, f32
func.func @main(%q: tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, %k: tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>, %v: tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">> {
  %o = loops.nest (%0 : 2, %1 : 24, %2 : 16) outs(%3: tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 32, columns = 16, depth = 16, warps = 4, stages = 3> {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.reduce sum (%k_1 : 16) {
        %8 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %9 = elem.convert %8 : bf16 to f32
        %10 = loops.load %k[%0, %k_1, %6] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %11 = elem.convert %10 : bf16 to f32
        %12 = elem.mul %9, %11 : f32
        loops.yield %12 : f32
      } : f32
      %8 = elem.mul %7, %4 : f32
      loops.yield %8 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.reduce sum (%k_1 : 16) {
        %9 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %10 = elem.convert %9 : bf16 to f32
        %11 = loops.load %k[%0, %k_1, %7] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %12 = elem.convert %11 : bf16 to f32
        %13 = elem.mul %10, %12 : f32
        loops.yield %13 : f32
      } : f32
      %9 = elem.mul %8, %4 : f32
      %10 = elem.sub %9, %5 : f32
      %11 = elem.exp %10 : f32
      loops.yield %11 : f32
    } : f32
    %7 = loops.reduce sum (%8 : 40) {
      %9 = loops.reduce sum (%k_1 : 16) {
        %10 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %11 = elem.convert %10 : bf16 to f32
        %12 = loops.load %k[%0, %k_1, %8] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %13 = elem.convert %12 : bf16 to f32
        %14 = elem.mul %11, %13 : f32
        loops.yield %14 : f32
      } : f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.convert %12 : f32 to bf16
      %14 = elem.convert %13 : bf16 to f32
      %15 = loops.load %v[%0, %8, %2] : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>
      %16 = elem.convert %15 : bf16 to f32
      %17 = elem.mul %14, %16 : f32
      loops.yield %17 : f32
    } : f32
    %8 = elem.div %7, %6 : f32
    %9 = elem.convert %8 : f32 to bf16
    loops.store %9, %3[%0, %1, %2] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %o : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: nothing says how many points are a step.
// CHECK-NOT: loops.fold
// CHECK:     func.return
func.func @main(%q: tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, %k: tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>, %v: tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">> {
  %o = loops.nest (%0 : 2, %1 : 24, %2 : 16) outs(%3: tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>) {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.reduce sum (%k_1 : 16) {
        %8 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %9 = elem.convert %8 : bf16 to f32
        %10 = loops.load %k[%0, %k_1, %6] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %11 = elem.convert %10 : bf16 to f32
        %12 = elem.mul %9, %11 : f32
        loops.yield %12 : f32
      } : f32
      %8 = elem.mul %7, %4 : f32
      loops.yield %8 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.reduce sum (%k_1 : 16) {
        %9 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %10 = elem.convert %9 : bf16 to f32
        %11 = loops.load %k[%0, %k_1, %7] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %12 = elem.convert %11 : bf16 to f32
        %13 = elem.mul %10, %12 : f32
        loops.yield %13 : f32
      } : f32
      %9 = elem.mul %8, %4 : f32
      %10 = elem.sub %9, %5 : f32
      %11 = elem.exp %10 : f32
      loops.yield %11 : f32
    } : f32
    %7 = loops.reduce sum (%8 : 40) {
      %9 = loops.reduce sum (%k_1 : 16) {
        %10 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %11 = elem.convert %10 : bf16 to f32
        %12 = loops.load %k[%0, %k_1, %8] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %13 = elem.convert %12 : bf16 to f32
        %14 = elem.mul %11, %13 : f32
        loops.yield %14 : f32
      } : f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.convert %12 : f32 to bf16
      %14 = elem.convert %13 : bf16 to f32
      %15 = loops.load %v[%0, %8, %2] : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>
      %16 = elem.convert %15 : bf16 to f32
      %17 = elem.mul %14, %16 : f32
      loops.yield %17 : f32
    } : f32
    %8 = elem.div %7, %6 : f32
    %9 = elem.convert %8 : f32 to bf16
    loops.store %9, %3[%0, %1, %2] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %o : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: the square of an exponential is not rescaled by the same factor.
// CHECK-NOT: loops.fold
// CHECK:     func.return
func.func @main(%q: tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, %k: tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>, %v: tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">> {
  %o = loops.nest (%0 : 2, %1 : 24, %2 : 16) outs(%3: tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 32, columns = 16, depth = 16, warps = 4, stages = 3> {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.reduce sum (%k_1 : 16) {
        %8 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %9 = elem.convert %8 : bf16 to f32
        %10 = loops.load %k[%0, %k_1, %6] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %11 = elem.convert %10 : bf16 to f32
        %12 = elem.mul %9, %11 : f32
        loops.yield %12 : f32
      } : f32
      %8 = elem.mul %7, %4 : f32
      loops.yield %8 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.reduce sum (%k_1 : 16) {
        %9 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %10 = elem.convert %9 : bf16 to f32
        %11 = loops.load %k[%0, %k_1, %7] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %12 = elem.convert %11 : bf16 to f32
        %13 = elem.mul %10, %12 : f32
        loops.yield %13 : f32
      } : f32
      %9 = elem.mul %8, %4 : f32
      %10 = elem.sub %9, %5 : f32
      %11 = elem.exp %10 : f32
      %99 = elem.mul %11, %11 : f32
      loops.yield %99 : f32
    } : f32
    %7 = loops.reduce sum (%8 : 40) {
      %9 = loops.reduce sum (%k_1 : 16) {
        %10 = loops.load %q[%0, %1, %k_1] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
        %11 = elem.convert %10 : bf16 to f32
        %12 = loops.load %k[%0, %k_1, %8] : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>
        %13 = elem.convert %12 : bf16 to f32
        %14 = elem.mul %11, %13 : f32
        loops.yield %14 : f32
      } : f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.convert %12 : f32 to bf16
      %14 = elem.convert %13 : bf16 to f32
      %15 = loops.load %v[%0, %8, %2] : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>
      %16 = elem.convert %15 : bf16 to f32
      %17 = elem.mul %14, %16 : f32
      loops.yield %17 : f32
    } : f32
    %8 = elem.div %7, %6 : f32
    %9 = elem.convert %8 : f32 to bf16
    loops.store %9, %3[%0, %1, %2] : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %o : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
}
