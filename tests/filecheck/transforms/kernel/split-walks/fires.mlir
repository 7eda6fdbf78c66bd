// RUN: cuesta-opt %s --split-input-file -p split-walks | filecheck %s
// RUN: cuesta-opt %s --split-input-file -p "split-walks,split-walks" | filecheck %s
// ROUNDTRIP
// Causal attention in training: the last step of a tile has a mask, and comes first. Twice is as good as once.

// CHECK-LABEL: kernel.func @product_maximum_abs_exp2_0
// CHECK: kernel.fold (%{{.*}} = %[[P:.*]] to %[[P]] + 1)
// CHECK: elem.select %{{.*}} : vector<64x1x64xf32>
// CHECK: kernel.fold (%{{.*}} = 0 to %[[P]])
// CHECK-NOT: elem.select %{{.*}} : vector<64x1x64xf32>
// CHECK-LABEL: func.func @main
builtin.module {
  kernel.func @product_maximum_abs_exp2_0(%primals: !kernel.ptr<bf16>, %primals_1: !kernel.ptr<bf16>, %primals_2: !kernel.ptr<bf16>) outs(%0: !kernel.ptr<bf16>, %1: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [8], target = cuda, warps = 4, index = 32, stages = 3> {
    %p = kernel.program_id 0
    %2 = elem.constant -inf : vector<64xf32>
    %3 = elem.constant 0.0 : vector<64xf32>
    %4 = elem.constant 0.0 : vector<64x16xf32>
    %5 = elem.constant 0.3606737554073334 : vector<64x1x64xf32>
    %6 = elem.constant -inf : vector<64x1x64xf32>
    %7 = elem.constant inf : vector<64xf32>
    %8 = elem.constant 0.6931471824645996 : vector<64xf32>
    %9 = elem.constant 0 : vector<1x16xi64>
    kernel.for (%10 = %p * 64 to %p * 64 + 64 lanes 64) {
      %11 = kernel.index [%10] : vector<64xi32>
      %12 = kernel.index [%10] : vector<64xi32>
      %13 = kernel.index [%10] : vector<64xi32>
      %14 = kernel.broadcast %13 : vector<64xi32> to vector<64x1x64xi32>
      %15 = kernel.broadcast %12 : vector<64xi32> to vector<64x1x64xi32>
      kernel.for (%16 = 0 to 16 lanes 16 dim 1) {
        %17, %18, %19 = kernel.fold (%c = 0 to min(%p + 1, 8)) from (%2, %3, %4) carries (%20: vector<64xf32>, %21: vector<64xf32>, %22: vector<64x16xf32>) {
          %23 = kernel.reduce maximum (%j = 0 to 64 lanes 64 dim 2) {
            %24 = kernel.index [%c * 64 + %j] : vector<1x1x64xi32>
            %25 = kernel.broadcast %24 : vector<1x1x64xi32> to vector<64x1x64xi32>
            %26 = elem.gt %25, %14 : vector<64x1x64xi32>
            %27 = kernel.contract (%28 = 0 to 16 lanes 16 dim 3) {
              %29 = kernel.load %primals[%10 * 16 + %28] : vector<64x1x1x16xbf16>
              %30 = kernel.load %primals_1[%c * 1024 + %j * 16 + %28] : vector<1x1x64x16xbf16>
              kernel.factors %29, %30 : vector<64x1x1x16xbf16>, vector<1x1x64x16xbf16>
            } : vector<64x1x64xf32>
            %28 = elem.mul %27, %5 : vector<64x1x64xf32>
            %29 = elem.select %26, %6, %28 : vector<64x1x64xf32>
            kernel.yield %29 : vector<64x1x64xf32>
          } : vector<64xf32>
          %24 = elem.maximum %20, %23 : vector<64xf32>
          %25 = elem.abs %24 : vector<64xf32>
          %26 = elem.eq %25, %7 : vector<64xf32>
          %27 = elem.select %26, %3, %24 : vector<64xf32>
          %28 = elem.eq %20, %7 : vector<64xf32>
          %29 = elem.select %28, %3, %20 : vector<64xf32>
          %30 = elem.sub %29, %27 : vector<64xf32>
          %31 = elem.exp2 %30 : vector<64xf32>
          %32 = kernel.broadcast %27 : vector<64xf32> to vector<64x1x64xf32>
          %33 = kernel.reduce sum (%j = 0 to 64 lanes 64 dim 2) {
            %34 = kernel.index [%c * 64 + %j] : vector<1x1x64xi32>
            %35 = kernel.broadcast %34 : vector<1x1x64xi32> to vector<64x1x64xi32>
            %36 = elem.gt %35, %15 : vector<64x1x64xi32>
            %37 = kernel.contract (%38 = 0 to 16 lanes 16 dim 3) {
              %39 = kernel.load %primals[%10 * 16 + %38] : vector<64x1x1x16xbf16>
              %40 = kernel.load %primals_1[%c * 1024 + %j * 16 + %38] : vector<1x1x64x16xbf16>
              kernel.factors %39, %40 : vector<64x1x1x16xbf16>, vector<1x1x64x16xbf16>
            } : vector<64x1x64xf32>
            %38 = elem.mul %37, %5 : vector<64x1x64xf32>
            %39 = elem.select %36, %6, %38 : vector<64x1x64xf32>
            %40 = elem.sub %39, %32 : vector<64x1x64xf32>
            %41 = elem.exp2 %40 : vector<64x1x64xf32> precision weight
            kernel.yield %41 : vector<64x1x64xf32>
          } : vector<64xf32>
          %34 = elem.mul %21, %31 : vector<64xf32>
          %35 = elem.add %34, %33 : vector<64xf32>
          %36 = kernel.contract (%j = 0 to 64 lanes 64 dim 2) {
            %37 = kernel.index [%c * 64 + %j] : vector<1x1x64xi32>
            %38 = kernel.broadcast %37 : vector<1x1x64xi32> to vector<64x1x64xi32>
            %39 = kernel.broadcast %11 : vector<64xi32> to vector<64x1x64xi32>
            %40 = elem.gt %38, %39 : vector<64x1x64xi32>
            %41 = kernel.contract (%42 = 0 to 16 lanes 16 dim 3) {
              %43 = kernel.load %primals[%10 * 16 + %42] : vector<64x1x1x16xbf16>
              %44 = kernel.load %primals_1[%c * 1024 + %j * 16 + %42] : vector<1x1x64x16xbf16>
              kernel.factors %43, %44 : vector<64x1x1x16xbf16>, vector<1x1x64x16xbf16>
            } : vector<64x1x64xf32>
            %42 = elem.mul %41, %5 : vector<64x1x64xf32>
            %43 = elem.select %40, %6, %42 : vector<64x1x64xf32>
            %44 = kernel.broadcast %27 : vector<64xf32> to vector<64x1x64xf32>
            %45 = elem.sub %43, %44 : vector<64x1x64xf32>
            %46 = elem.exp2 %45 : vector<64x1x64xf32> precision weight
            %47 = elem.convert %46 : vector<64x1x64xf32> to vector<64x1x64xbf16>
            %48 = kernel.load %primals_2[%16 + %c * 1024 + %j * 16] : vector<1x16x64xbf16>
            kernel.factors %47, %48 : vector<64x1x64xbf16>, vector<1x16x64xbf16>
          } : vector<64x16xf32>
          %37 = kernel.broadcast %31 : vector<64xf32> to vector<64x16xf32>
          %38 = elem.mul %22, %37 : vector<64x16xf32>
          %39 = elem.add %38, %36 : vector<64x16xf32>
          kernel.carry %24, %35, %39 : vector<64xf32>, vector<64xf32>, vector<64x16xf32>
        } : vector<64xf32>, vector<64xf32>, vector<64x16xf32>
        %20 = elem.eq %17, %7 : vector<64xf32>
        %21 = elem.select %20, %3, %17 : vector<64xf32>
        %22 = elem.sub %21, %17 : vector<64xf32>
        %23 = elem.exp2 %22 : vector<64xf32>
        %24 = elem.mul %18, %23 : vector<64xf32>
        %25 = kernel.broadcast %23 : vector<64xf32> to vector<64x16xf32>
        %26 = elem.mul %19, %25 : vector<64x16xf32>
        %27 = elem.mul %17, %8 : vector<64xf32>
        %28 = elem.log %24 : vector<64xf32>
        %29 = elem.add %27, %28 : vector<64xf32>
        %30 = kernel.broadcast %24 : vector<64xf32> to vector<64x16xf32>
        %31 = elem.div %26, %30 : vector<64x16xf32> precision bf16
        %32 = elem.convert %31 : vector<64x16xf32> to vector<64x16xbf16>
        kernel.store %32, %0[%10 * 16 + %16] : vector<64x16xbf16>
        %33 = kernel.index [%16] : vector<1x16xi64>
        %34 = elem.eq %33, %9 : vector<1x16xi64>
        kernel.store %29, %1[%10] : vector<64xf32>
      }
    }
  }
  func.func @main(%primals: tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>, %primals_1: tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>, %primals_2: tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x512xbf16, #aten.layout<strides = [8192, 1, 16], device = "cuda:0">>, tensor<1x1x512x1xf32, #aten.layout<device = "cuda:0">>, tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x512xbf16, #aten.layout<strides = [8192, 1, 16], device = "cuda:0">>) attributes {aten.given = 1 : i64} {
    %view = loops.view %primals_1 by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">>
    %view_1 = loops.view %primals by (d0, d1, d2) -> (0, 0, d2, d1) : tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x16x512xbf16, #aten.layout<strides = [8192, 1, 16], device = "cuda:0">>
    %view_2 = loops.view %primals_2 by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">>
    %bmm, %add_tensor = kernel.launch @product_maximum_abs_exp2_0(%primals_1, %primals, %primals_2) : (tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x1x512x1xf32, #aten.layout<device = "cuda:0">>)
    %view_3 = loops.view %bmm by (d0, d1, d2, d3) -> (0, d2, d3) : tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>
    %permute = loops.view %primals_2 by (d0, d1, d2) -> (0, 0, d2, d1) : tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">> to tensor<1x16x512xbf16, #aten.layout<strides = [8192, 1, 16], device = "cuda:0">>
    func.return %view_3, %view, %view_1, %add_tensor, %bmm, %permute : tensor<1x1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x512xbf16, #aten.layout<strides = [8192, 1, 16], device = "cuda:0">>, tensor<1x1x512x1xf32, #aten.layout<device = "cuda:0">>, tensor<1x512x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x16x512xbf16, #aten.layout<strides = [8192, 1, 16], device = "cuda:0">>
  }
}
