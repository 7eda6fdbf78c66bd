// RUN: cuesta-opt %s -p accumulate-products --split-input-file

// No rows; nothing to sum in one of them.
// CHECK: aten.addmm.default(%{{.*}}, %c, %d)
func.func @main(%a : tensor<0x8xf32>, %b : tensor<8x5xf32>, %c : tensor<0x0xf32>, %d : tensor<0x5xf32>) -> tensor<0x5xf32> {
  %m = aten.mm.default(%a, %b) : (tensor<0x8xf32>, tensor<8x5xf32>) -> tensor<0x5xf32>
  %n = aten.mm.default(%c, %d) : (tensor<0x0xf32>, tensor<0x5xf32>) -> tensor<0x5xf32>
  %s = aten.add.Tensor(%m, %n) : (tensor<0x5xf32>, tensor<0x5xf32>) -> tensor<0x5xf32>
  func.return %s : tensor<0x5xf32>
}

// -----
// Sizes that are not known, with a view that takes one.
// CHECK: %[[N:.*]] = aten.addmm.default(%{{.*}}, %a, %b)
// CHECK: aten.view.default(%[[N]], [s0, 1, 5])
func.func @main(%a : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, %b : tensor<8x5xf32>) -> tensor<?x1x5xf32, #aten.layout<sizes = [s0, 1, 5]>> attributes {sym.symbols = #sym.symbols<s0 in [1, 10]>} {
  %m = aten.mm.default(%a, %b) : (tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, tensor<8x5xf32>) -> tensor<?x5xf32, #aten.layout<sizes = [s0, 5]>>
  %p = aten.view.default(%m, [s0, 1, 5]) : (tensor<?x5xf32, #aten.layout<sizes = [s0, 5]>>) -> tensor<?x1x5xf32, #aten.layout<sizes = [s0, 1, 5]>>
  %n = aten.mm.default(%a, %b) : (tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>, tensor<8x5xf32>) -> tensor<?x5xf32, #aten.layout<sizes = [s0, 5]>>
  %q = aten.view.default(%n, [s0, 1, 5]) : (tensor<?x5xf32, #aten.layout<sizes = [s0, 5]>>) -> tensor<?x1x5xf32, #aten.layout<sizes = [s0, 1, 5]>>
  %s = aten.add.Tensor(%p, %q) : (tensor<?x1x5xf32, #aten.layout<sizes = [s0, 1, 5]>>, tensor<?x1x5xf32, #aten.layout<sizes = [s0, 1, 5]>>) -> tensor<?x1x5xf32, #aten.layout<sizes = [s0, 1, 5]>>
  func.return %s : tensor<?x1x5xf32, #aten.layout<sizes = [s0, 1, 5]>>
}
