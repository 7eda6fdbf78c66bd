// RUN: cuesta-opt %s --split-input-file -p shorten-walks | filecheck %s
// A mask of the least number of bf16, times log2 e no number: scores stay what they are, and exponentials are shorter.

// CHECK-LABEL: func.func @main
// CHECK: loops.reduce maximum
// CHECK: elem.exp %{{.*}} : f32 precision weight
// CHECK-NOT: elem.exp2
builtin.module {
  func.func @main(%arg0: tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, %arg1: tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>, %arg2: tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> {
    %view = loops.view %arg1 by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %view_1 = loops.view %arg0 by (d0, d1, d2) -> (0, 0, d2, d1) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
    %view_2 = loops.view %arg2 by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    %bmm = loops.nest (%0 : 1, %1 : 64, %2 : 16) outs(%3: tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<rows = 64, columns = 16, depth = 64, warps = 4, stages = 3> {
      %4 = loops.index [%1] : i64
      %5 = elem.constant -3.3895313892515355e+38 : f32
      %6 = elem.constant 0.25 : f32
      %7 = loops.reduce maximum (%8 : 64) {
        %9 = loops.index [%8] : i64
        %10 = elem.gt %9, %4 : i64
        %11 = loops.reduce sum (%k : 16) {
          %12 = loops.load %arg1[0, 0, %1, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %13 = elem.convert %12 : bf16 to f32
          %14 = loops.load %arg0[0, 0, %8, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %15 = elem.convert %14 : bf16 to f32
          %16 = elem.mul %13, %15 : f32
          loops.yield %16 : f32
        } : f32
        %12 = elem.mul %11, %6 : f32
        %13 = elem.select %10, %5, %12 : f32
        loops.yield %13 : f32
      } : f32
      %8 = loops.reduce sum (%9 : 64) {
        %10 = loops.index [%9] : i64
        %11 = elem.gt %10, %4 : i64
        %12 = loops.reduce sum (%k : 16) {
          %13 = loops.load %arg1[0, 0, %1, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %14 = elem.convert %13 : bf16 to f32
          %15 = loops.load %arg0[0, 0, %9, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %16 = elem.convert %15 : bf16 to f32
          %17 = elem.mul %14, %16 : f32
          loops.yield %17 : f32
        } : f32
        %13 = elem.mul %12, %6 : f32
        %14 = elem.select %11, %5, %13 : f32
        %15 = elem.sub %14, %7 : f32
        %16 = elem.exp %15 : f32 precision bf16
        loops.yield %16 : f32
      } : f32
      %9 = loops.reduce sum (%10 : 64) {
        %11 = loops.index [%10] : i64
        %12 = elem.gt %11, %4 : i64
        %13 = loops.reduce sum (%k : 16) {
          %14 = loops.load %arg1[0, 0, %1, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %15 = elem.convert %14 : bf16 to f32
          %16 = loops.load %arg0[0, 0, %10, %k] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
          %17 = elem.convert %16 : bf16 to f32
          %18 = elem.mul %15, %17 : f32
          loops.yield %18 : f32
        } : f32
        %14 = elem.mul %13, %6 : f32
        %15 = elem.select %12, %5, %14 : f32
        %16 = elem.sub %15, %7 : f32
        %17 = elem.exp %16 : f32 precision bf16
        %18 = elem.convert %17 : f32 to bf16
        %19 = elem.convert %18 : bf16 to f32
        %20 = loops.load %arg2[0, 0, %10, %2] : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
        %21 = elem.convert %20 : bf16 to f32
        %22 = elem.mul %19, %21 : f32
        loops.yield %22 : f32
      } : f32
      %10 = elem.div %9, %8 : f32 precision bf16
      %11 = elem.convert %10 : f32 to bf16
      loops.store %11, %3[%0, %1, %2] : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">>
    }
    %view_3 = loops.view %bmm by (d0, d1, d2, d3) -> (0, d2, d3) : tensor<1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
    func.return %view_3 : tensor<1x1x64x16xbf16, #aten.layout<device = "cuda:0">>
  }
}
