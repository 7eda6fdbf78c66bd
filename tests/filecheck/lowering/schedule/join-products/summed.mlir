// RUN: cuesta-opt %s -p join-products
// ROUNDTRIP

// The gradient of a learned bias: what the products of a backward pass read is also summed over the batch, by a nest that
// computes it, two products for each element of the batch. The sum along rows that both ask for is a nest of its own.
// CHECK-NOT: loops.extern
// CHECK:     %sum = loops.nest ({{.*}}) outs({{.*}}) schedule #loops.schedule<batch = 1, {{.*}}>
// CHECK:       loops.reduce sum (%{{[^ ]+}} : 2)
// CHECK:         loops.reduce sum (%{{[^ ]+}} : 16)
// CHECK:         loops.reduce sum (%{{[^ ]+}} : 16)
// CHECK-NOT: loops.extern
// CHECK:     func.return
func.func @main(%primals: tensor<1x64x64xbf16, #aten.layout<device = "cuda:0">>, %view: tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %view_1: tensor<2x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>, %add_tensor: tensor<2x1x64x1xf32, #aten.layout<device = "cuda:0">>, %bmm: tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %permute: tensor<2x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>, %tangents: tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x1x64x16xbf16, #aten.layout<strides = [1024, 1024, 1, 64], device = "cuda:0">>, tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>) {
  %bmm_1 = loops.extern pure "aten.bmm.default"(%view, %view_1) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %_to_copy_default = loops.nest (%0 : 2, %1 : 1, %2 : 64, %3 : 64) outs(%4: tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %5 = loops.load %bmm_1[%0, %2, %3] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %6 = elem.convert %5 : bf16 to f32
    %7 = elem.constant 0.125 : f32
    %8 = elem.mul %6, %7 : f32
    %9 = loops.load %primals[0, %2, %3] : tensor<1x64x64xbf16, #aten.layout<device = "cuda:0">>
    %10 = elem.convert %9 : bf16 to f32
    %11 = elem.add %8, %10 : f32
    %12 = loops.load %add_tensor[%0, 0, %2, 0] : tensor<2x1x64x1xf32, #aten.layout<device = "cuda:0">>
    %13 = elem.sub %11, %12 : f32
    %14 = elem.exp %13 : f32 precision bf16
    %15 = elem.convert %14 : f32 to bf16
    loops.store %15, %4[%0, %1, %2, %3] : tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %view_2 = loops.view %tangents by (d0, d1, d2) -> (d0, 0, d1, d2) : tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %permute_1 = loops.view %_to_copy_default by (d0, d1, d2) -> (d0, 0, d2, d1) : tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>
  %bmm_2 = loops.extern pure "aten.bmm.default"(%permute_1, %view_2) : (tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %bmm_3 = loops.extern pure "aten.bmm.default"(%view_2, %permute) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %sum_dim_int_list, %mul = loops.nest (%0 : 2, %1 : 64) outs(%2: tensor<2x64x1xf32, #aten.layout<device = "cuda:0">>, %3: tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %4 = loops.reduce sum (%5 : 16) {
      %6 = loops.load %tangents[%0, 0, %1, %5] : tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>
      %7 = elem.convert %6 : bf16 to f32
      %8 = loops.load %bmm[%0, %1, %5] : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %7, %9 : f32
      loops.yield %10 : f32
    } : f32
    loops.store %4, %2[%0, %1, 0] : tensor<2x64x1xf32, #aten.layout<device = "cuda:0">>
    %5 = elem.constant 0.125 : f32
    loops.for (%6 : 64) {
      %7 = loops.load %_to_copy_default[%0, 0, %1, %6] : tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">>
      %8 = elem.convert %7 : bf16 to f32
      %9 = loops.load %bmm_3[%0, %1, %6] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
      %10 = elem.convert %9 : bf16 to f32
      %11 = elem.sub %10, %4 : f32
      %12 = elem.mul %8, %11 : f32
      %13 = elem.mul %12, %5 : f32
      %14 = elem.convert %13 : f32 to bf16
      loops.store %14, %3[%0, 0, %1, %6] : tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %sum = loops.nest (%0 : 1, %1 : 64, %2 : 64) outs(%3: tensor<1x1x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %4 = loops.reduce sum (%5 : 2) {
      %6 = loops.load %_to_copy_default[%5, 0, %1, %2] : tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">>
      %7 = elem.convert %6 : bf16 to f32
      %8 = loops.load %bmm_3[%5, %1, %2] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = loops.load %sum_dim_int_list[%5, %1, 0] : tensor<2x64x1xf32, #aten.layout<device = "cuda:0">>
      %11 = elem.sub %9, %10 : f32
      %12 = elem.mul %7, %11 : f32
      loops.yield %12 : f32
    } : f32
    %5 = elem.convert %4 : f32 to bf16
    loops.store %5, %3[0, %0, %1, %2] : tensor<1x1x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %view_3 = loops.view %mul by (d0, d1, d2) -> (d0, 0, d1, d2) : tensor<2x1x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %permute_2 = loops.view %view by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<2x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>
  %bmm_4 = loops.extern pure "aten.bmm.default"(%permute_2, %view_3) : (tensor<2x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">>, tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>
  %permute_3 = loops.view %view_1 by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x16x64xbf16, #aten.layout<strides = [1024, 1, 16], device = "cuda:0">> to tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %bmm_5 = loops.extern pure "aten.bmm.default"(%view_3, %permute_3) : (tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %view_4 = loops.view %bmm_2 by (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>
  %view_5 = loops.view %sum by (d0, d1, d2) -> (0, 0, d1, d2) : tensor<1x1x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<1x64x64xbf16, #aten.layout<device = "cuda:0">>
  %view_6 = loops.view %bmm_5 by (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">> to tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>
  %permute_4 = loops.view %bmm_4 by (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x1x64x16xbf16, #aten.layout<strides = [1024, 1024, 1, 64], device = "cuda:0">>
  func.return %permute_4, %view_6, %view_5, %view_4 : tensor<2x1x64x16xbf16, #aten.layout<strides = [1024, 1024, 1, 64], device = "cuda:0">>, tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<1x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x1x64x16xbf16, #aten.layout<device = "cuda:0">>
}
