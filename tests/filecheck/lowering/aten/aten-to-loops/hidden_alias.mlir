// Nobody looks whether s2 = s1 * s3, without which eager's view would be none. A view that the caller gets, or gets a
// view of, is eager's; one that is only read is read in place.
// RUN: cuesta-opt %s -p aten-to-loops | filecheck %s

// CHECK:       %given = loops.extern pure "aten.view.default"(%x, [s0 * s1])
// CHECK-NEXT:  %inner = loops.extern pure "aten.view.default"(%x, [s0 * s1])
// CHECK-NEXT:  %part = loops.view %inner by (d0) -> (d0 + 1)
// CHECK-NEXT:  %read = loops.view %x
// CHECK:       %sum = loops.nest
// CHECK:       func.return %given, %part, %sum
func.func @main(%s0: !sym.int<s0>, %s1: !sym.int<s1>, %s2: !sym.int<s2>, %s3: !sym.int<s3>, %x: tensor<?x?xf32, #aten.layout<sizes = [s0, s1], strides = [s2, s3]>>)
    -> (tensor<?xf32, #aten.layout<sizes = [s0 * s1], strides = [s3]>>, tensor<?xf32, #aten.layout<sizes = [s0 * s1 - 1], strides = [s3]>>, tensor<f32>)
    attributes {sym.symbols = #sym.symbols<s0 in [2, 9], s1 in [2, 2], s2 in [6, 6], s3 in [3, 3]>} {
  %given = aten.view.default(%x, [s0 * s1]) : (tensor<?x?xf32, #aten.layout<sizes = [s0, s1], strides = [s2, s3]>>) -> tensor<?xf32, #aten.layout<sizes = [s0 * s1], strides = [s3]>>
  %inner = aten.view.default(%x, [s0 * s1]) : (tensor<?x?xf32, #aten.layout<sizes = [s0, s1], strides = [s2, s3]>>) -> tensor<?xf32, #aten.layout<sizes = [s0 * s1], strides = [s3]>>
  %part = aten.slice.Tensor(%inner, 0, 1, 9223372036854775807, 1) : (tensor<?xf32, #aten.layout<sizes = [s0 * s1], strides = [s3]>>) -> tensor<?xf32, #aten.layout<sizes = [s0 * s1 - 1], strides = [s3]>>
  %read = aten.view.default(%x, [s0 * s1]) : (tensor<?x?xf32, #aten.layout<sizes = [s0, s1], strides = [s2, s3]>>) -> tensor<?xf32, #aten.layout<sizes = [s0 * s1], strides = [s3]>>
  %sum = aten.sum.default(%read) : (tensor<?xf32, #aten.layout<sizes = [s0 * s1], strides = [s3]>>) -> tensor<f32>
  func.return %given, %part, %sum : tensor<?xf32, #aten.layout<sizes = [s0 * s1], strides = [s3]>>, tensor<?xf32, #aten.layout<sizes = [s0 * s1 - 1], strides = [s3]>>, tensor<f32>
}
