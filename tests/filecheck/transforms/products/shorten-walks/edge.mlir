// RUN: cuesta-opt %s --split-input-file -p shorten-walks | filecheck %s
// In training the greatest score is in units of e where it is saved; gradients have the sum of a row in powers of two, and
// the scale of the scores is that of their sums.

// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = loops.reduce maximum
// CHECK: %[[L:.*]] = elem.constant 0.69314{{.*}} : f32
// CHECK: %[[N:.*]] = elem.mul %[[M]], %[[L]] : f32
// CHECK: %[[E:.*]] = elem.log
// CHECK: elem.add %[[N]], %[[E]] : f32
builtin.module {
  func.func @main(%primals: tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, %primals_1: tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, %primals_2: tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>, tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>, tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>) attributes {aten.given = 1 : i64} {
    %view = loops.view %primals_1 by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %view_1 = loops.view %primals by (d0, d1, d2) -> (0, 0, d2, d1) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
    %view_2 = loops.view %primals_2 by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %bmm, %add_tensor = loops.nest (%0 : 1, %1 : 64, %2 : 16) outs(%3: tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, %4: tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 64, columns = 16, depth = 64, warps = 4, stages = 3> {
      %5 = loops.index [%1] : i64
      %6 = elem.constant -inf : f32
      %7 = elem.constant 0.25 : f32
      %8 = loops.reduce maximum (%9 : 64) {
        %10 = loops.index [%9] : i64
        %11 = elem.gt %10, %5 : i64
        %12 = loops.reduce sum (%k : 16) {
          %13 = loops.load %primals_1[0, 0, %1, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %14 = elem.convert %13 : bf16 to f32
          %15 = loops.load %primals[0, 0, %9, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %16 = elem.convert %15 : bf16 to f32
          %17 = elem.mul %14, %16 : f32
          loops.yield %17 : f32
        } : f32
        %13 = elem.mul %12, %7 : f32
        %14 = elem.select %11, %6, %13 : f32
        loops.yield %14 : f32
      } : f32
      %9 = loops.reduce sum (%10 : 64) {
        %11 = loops.index [%10] : i64
        %12 = elem.gt %11, %5 : i64
        %13 = loops.reduce sum (%k : 16) {
          %14 = loops.load %primals_1[0, 0, %1, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %15 = elem.convert %14 : bf16 to f32
          %16 = loops.load %primals[0, 0, %10, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %17 = elem.convert %16 : bf16 to f32
          %18 = elem.mul %15, %17 : f32
          loops.yield %18 : f32
        } : f32
        %14 = elem.mul %13, %7 : f32
        %15 = elem.select %12, %6, %14 : f32
        %16 = elem.sub %15, %8 : f32
        %17 = elem.exp %16 : f32
        loops.yield %17 : f32
      } : f32
      %10 = elem.log %9 : f32
      %11 = elem.add %8, %10 : f32
      %12 = loops.reduce sum (%13 : 64) {
        %14 = loops.index [%13] : i64
        %15 = elem.gt %14, %5 : i64
        %16 = loops.reduce sum (%k : 16) {
          %17 = loops.load %primals_1[0, 0, %1, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %18 = elem.convert %17 : bf16 to f32
          %19 = loops.load %primals[0, 0, %13, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %20 = elem.convert %19 : bf16 to f32
          %21 = elem.mul %18, %20 : f32
          loops.yield %21 : f32
        } : f32
        %17 = elem.mul %16, %7 : f32
        %18 = elem.select %15, %6, %17 : f32
        %19 = elem.sub %18, %8 : f32
        %20 = elem.exp %19 : f32
        %21 = elem.convert %20 : f32 to bf16
        %22 = elem.convert %21 : bf16 to f32
        %23 = loops.load %primals_2[0, 0, %13, %2] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
        %24 = elem.convert %23 : bf16 to f32
        %25 = elem.mul %22, %24 : f32
        loops.yield %25 : f32
      } : f32
      %13 = elem.div %12, %9 : f32 precision bf16
      %14 = elem.convert %13 : f32 to bf16
      loops.store %14, %3[%0, %1, %2] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
      %15 = loops.index [%2] : i64
      %16 = elem.constant 0 : i64
      %17 = elem.eq %15, %16 : i64
      loops.store %11, %4[0, 0, %1, 0] if %17 : tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>
    }
    %view_3 = loops.view %bmm by (d0, d1, d2, d3) -> (0, d2, d3) : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %permute = loops.view %primals_2 by (d0, d1, d2) -> (0, 0, d2, d1) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
    func.return %view_3, %view, %view_1, %add_tensor, %bmm, %permute : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>, tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>, tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
  }
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = loops.load %add_tensor
// CHECK: elem.constant 1.442695{{.*}} : f32
// CHECK: elem.mul %[[C]], %{{.*}} : f32
// CHECK: elem.exp2 %{{.*}} : f32 precision weight
// CHECK: %[[R:.*]] = loops.reduce sum
// CHECK: %[[S:.*]] = elem.constant 0.25 : f32
// CHECK: elem.mul %[[R]], %[[S]] : f32
builtin.module {
  func.func @main(%view: tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, %view_1: tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>, %add_tensor: tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>, %bmm: tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, %permute: tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>, %tangents: tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<1x1x64x16xbf16, #aten.layout<strides = [1024, 1024, 1, 64], device = "cuda:0">>, tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>) {
    %view_2 = loops.view %tangents by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %0 = loops.nest (%1 : 1, %2 : 64) outs(%3: tensor<1x64xf32, #aten.layout<device = "cuda:0">>) {
      %4 = loops.reduce sum (%5 : 16) {
        %6 = loops.load %tangents[0, 0, %2, %5] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
        %7 = elem.convert %6 : bf16 to f32
        %8 = loops.load %bmm[0, %2, %5] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
        %9 = elem.convert %8 : bf16 to f32
        %10 = elem.mul %7, %9 : f32
        loops.yield %10 : f32
      } : f32
      loops.store %4, %3[%1, %2] : tensor<1x64xf32, #aten.layout<device = "cuda:0">>
    }
    %permute_1 = loops.view %view by (d0, d1, d2) -> (d0, d2, d1) : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
    %bmm_1, %bmm_2 = loops.nest (%1 : 1, %2 : 64, %3 : 16) outs(%4: tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>, %5: tensor<1x16x64xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 64, columns = 16, depth = 64, warps = 4, stages = 3> {
      %6 = loops.reduce sum (%k : 64) {
        %7 = loops.index [%2] : i64
        %8 = loops.index [%k] : i64
        %9 = elem.gt %7, %8 : i64
        %10 = elem.constant -inf : f32
        %11 = loops.reduce sum (%k_1 : 16) {
          %12 = loops.load %view[0, %k, %k_1] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %13 = elem.convert %12 : bf16 to f32
          %14 = loops.load %view_1[0, %k_1, %2] : tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
          %15 = elem.convert %14 : bf16 to f32
          %16 = elem.mul %13, %15 : f32
          loops.yield %16 : f32
        } : f32
        %12 = elem.constant 0.25 : f32
        %13 = elem.mul %11, %12 : f32
        %14 = elem.select %9, %10, %13 : f32
        %15 = loops.load %add_tensor[0, 0, %k, 0] : tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>
        %16 = elem.sub %14, %15 : f32
        %17 = elem.exp %16 : f32 precision bf16
        %18 = loops.load %tangents[0, 0, %k, %3] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
        %19 = elem.convert %18 : bf16 to f32
        %20 = elem.convert %17 : f32 to bf16
        %21 = elem.convert %20 : bf16 to f32
        %22 = elem.mul %21, %19 : f32
        loops.yield %22 : f32
      } : f32
      %7 = elem.convert %6 : f32 to bf16
      loops.store %7, %4[%1, %2, %3] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
      %8 = loops.reduce sum (%k : 64) {
        %9 = loops.load %0[0, %k] : tensor<1x64xf32, #aten.layout<device = "cuda:0">>
        %10 = loops.index [%k] : i64
        %11 = elem.constant 0.0 : f32
        %12 = elem.constant 0.25 : f32
        %13 = loops.index [%2] : i64
        %14 = elem.gt %13, %10 : i64
        %15 = loops.index [%2] : i64
        %16 = loops.index [%k] : i64
        %17 = elem.gt %15, %16 : i64
        %18 = elem.constant -inf : f32
        %19 = loops.reduce sum (%k_1 : 16) {
          %20 = loops.load %view[0, %k, %k_1] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %21 = elem.convert %20 : bf16 to f32
          %22 = loops.load %view_1[0, %k_1, %2] : tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
          %23 = elem.convert %22 : bf16 to f32
          %24 = elem.mul %21, %23 : f32
          loops.yield %24 : f32
        } : f32
        %20 = elem.constant 0.25 : f32
        %21 = elem.mul %19, %20 : f32
        %22 = elem.select %17, %18, %21 : f32
        %23 = loops.load %add_tensor[0, 0, %k, 0] : tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>
        %24 = elem.sub %22, %23 : f32
        %25 = elem.exp %24 : f32 precision bf16
        %26 = loops.reduce sum (%k_1 : 16) {
          %27 = loops.load %tangents[0, 0, %k, %k_1] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %28 = elem.convert %27 : bf16 to f32
          %29 = loops.load %permute[0, %k_1, %2] : tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
          %30 = elem.convert %29 : bf16 to f32
          %31 = elem.mul %28, %30 : f32
          loops.yield %31 : f32
        } : f32
        %27 = elem.sub %26, %9 : f32
        %28 = elem.mul %25, %27 : f32
        %29 = elem.select %14, %11, %28 : f32
        %30 = elem.mul %29, %12 : f32
        %31 = loops.load %view[0, %k, %3] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
        %32 = elem.convert %31 : bf16 to f32
        %33 = elem.convert %30 : f32 to bf16
        %34 = elem.convert %33 : bf16 to f32
        %35 = elem.mul %34, %32 : f32
        loops.yield %35 : f32
      } : f32
      %9 = elem.convert %8 : f32 to bf16
      loops.store %9, %5[%1, %3, %2] : tensor<1x16x64xbf16, #aten.layout<device = "cuda:0">>
    }
    %permute_2 = loops.view %view_1 by (d0, d1, d2) -> (d0, d2, d1) : tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">> to tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %bmm_3 = loops.nest (%1 : 1, %2 : 64, %3 : 16) outs(%4: tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 64, columns = 16, depth = 64, warps = 4, stages = 2> {
      %5 = loops.reduce sum (%k : 64) {
        %6 = loops.load %0[0, %2] : tensor<1x64xf32, #aten.layout<device = "cuda:0">>
        %7 = loops.index [%2] : i64
        %8 = elem.constant 0.0 : f32
        %9 = elem.constant 0.25 : f32
        %10 = loops.index [%k] : i64
        %11 = elem.gt %10, %7 : i64
        %12 = loops.index [%k] : i64
        %13 = loops.index [%2] : i64
        %14 = elem.gt %12, %13 : i64
        %15 = elem.constant -inf : f32
        %16 = loops.reduce sum (%k_1 : 16) {
          %17 = loops.load %view[0, %2, %k_1] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %18 = elem.convert %17 : bf16 to f32
          %19 = loops.load %view_1[0, %k_1, %k] : tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
          %20 = elem.convert %19 : bf16 to f32
          %21 = elem.mul %18, %20 : f32
          loops.yield %21 : f32
        } : f32
        %17 = elem.constant 0.25 : f32
        %18 = elem.mul %16, %17 : f32
        %19 = elem.select %14, %15, %18 : f32
        %20 = loops.load %add_tensor[0, 0, %2, 0] : tensor<1x1x64x1xf32, #aten.layout<device = "cuda:0">>
        %21 = elem.sub %19, %20 : f32
        %22 = elem.exp %21 : f32 precision bf16
        %23 = loops.reduce sum (%k_1 : 16) {
          %24 = loops.load %tangents[0, 0, %2, %k_1] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %25 = elem.convert %24 : bf16 to f32
          %26 = loops.load %permute[0, %k_1, %k] : tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
          %27 = elem.convert %26 : bf16 to f32
          %28 = elem.mul %25, %27 : f32
          loops.yield %28 : f32
        } : f32
        %24 = elem.sub %23, %6 : f32
        %25 = elem.mul %22, %24 : f32
        %26 = elem.select %11, %8, %25 : f32
        %27 = elem.mul %26, %9 : f32
        %28 = loops.load %view_1[0, %3, %k] : tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
        %29 = elem.convert %28 : bf16 to f32
        %30 = elem.convert %27 : f32 to bf16
        %31 = elem.convert %30 : bf16 to f32
        %32 = elem.mul %31, %29 : f32
        loops.yield %32 : f32
      } : f32
      %6 = elem.convert %5 : f32 to bf16
      loops.store %6, %4[%1, %2, %3] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    }
    %view_3 = loops.view %bmm_1 by (d0, d1, d2, d3) -> (0, d2, d3) : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %view_4 = loops.view %bmm_3 by (d0, d1, d2, d3) -> (0, d2, d3) : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %permute_3 = loops.view %bmm_2 by (d0, d1, d2, d3) -> (0, d3, d2) : tensor<1x16x64xbf16, #aten.layout<device = "cuda:0">> to tensor<1x1x64x16xbf16, #aten.layout<strides = [1024, 1024, 1, 64], device = "cuda:0">>
    func.return %permute_3, %view_4, %view_3 : tensor<1x1x64x16xbf16, #aten.layout<strides = [1024, 1024, 1, 64], device = "cuda:0">>, tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
  }
}
