// RUN: cuesta-opt %s -p "fuse-products" --split-input-file

// Nothing to sum, and nothing at all.
// CHECK: loops.extern pure "aten.mm.default"
func.func @main(%a : tensor<20x0xf16>, %b : tensor<0x24xf16>) -> tensor<20x24xf16> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<20x0xf16>, tensor<0x24xf16>) -> tensor<20x24xf16>
  func.return %m : tensor<20x24xf16>
}

// -----
// A size that is not known.
// CHECK: loops.extern pure "aten.mm.default"
func.func @main(%a : tensor<?x32xf16, #aten.layout<sizes = [s0, 32]>>, %b : tensor<32x24xf16>) -> tensor<?x24xf16, #aten.layout<sizes = [s0, 24]>> attributes {sym.symbols = #sym.symbols<s0 in [1, 10]>} {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<?x32xf16, #aten.layout<sizes = [s0, 32]>>, tensor<32x24xf16>) -> tensor<?x24xf16, #aten.layout<sizes = [s0, 24]>>
  func.return %m : tensor<?x24xf16, #aten.layout<sizes = [s0, 24]>>
}

// -----
// One row, one column, one point of each sum: no matrices to multiply.
// CHECK-COUNT-3: loops.extern pure "aten.mm.default"
// CHECK:         func.return
func.func @main(%a : tensor<1x32xf16>, %b : tensor<32x24xf16>, %c : tensor<24x1xf16>, %d : tensor<1x24xf16>) -> (tensor<1x24xf16>, tensor<32x1xf16>, tensor<24x24xf16>) {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<1x32xf16>, tensor<32x24xf16>) -> tensor<1x24xf16>
  %n = loops.extern pure "aten.mm.default"(%b, %c) : (tensor<32x24xf16>, tensor<24x1xf16>) -> tensor<32x1xf16>
  %o = loops.extern pure "aten.mm.default"(%c, %d) : (tensor<24x1xf16>, tensor<1x24xf16>) -> tensor<24x24xf16>
  func.return %m, %n, %o : tensor<1x24xf16>, tensor<32x1xf16>, tensor<24x24xf16>
}

// -----
// The fewest; a bias of one row, and one of one number, for every row.
// CHECK: loops.nest (%i : 2, %j : 2)
// CHECK: loops.load %c[0, %j]
// CHECK: loops.nest ({{.*}} : 2, {{.*}} : 2)
// CHECK: loops.load %d[0]
func.func @main(%c : tensor<1x2xf16>, %a : tensor<2x2xf16>, %d : tensor<1xf16>) -> (tensor<2x2xf16>, tensor<2x2xf16>) {
  %m = loops.extern pure "aten.addmm.default"(%c, %a, %a) : (tensor<1x2xf16>, tensor<2x2xf16>, tensor<2x2xf16>) -> tensor<2x2xf16>
  %y = loops.nest (%i : 2, %j : 2) outs(%o : tensor<2x2xf16>) {
    %0 = loops.load %m[%i, %j] : tensor<2x2xf16>
    loops.store %0, %o[%i, %j] : tensor<2x2xf16>
  }
  %n = loops.extern pure "aten.addmm.default"(%d, %a, %a) : (tensor<1xf16>, tensor<2x2xf16>, tensor<2x2xf16>) -> tensor<2x2xf16>
  func.return %y, %n : tensor<2x2xf16>, tensor<2x2xf16>
}

// -----
// On a device, one matrix of a batch of one, with an axis of size 1 in the domain of what follows.
// CHECK: loops.nest (%i : 4, %u : 1, %j : 5) outs({{.*}}) schedule #loops.schedule<rows = 32
func.func @main(%a : tensor<1x4x8xf16, #aten.layout<device = "cuda:0">>, %b : tensor<1x8x5xf16, #aten.layout<device = "cuda:0">>) -> tensor<4x1x5xf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.bmm.default"(%a, %b) : (tensor<1x4x8xf16, #aten.layout<device = "cuda:0">>, tensor<1x8x5xf16, #aten.layout<device = "cuda:0">>) -> tensor<1x4x5xf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 4, %u : 1, %j : 5) outs(%o : tensor<4x1x5xf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[0, %i, %j] : tensor<1x4x5xf16, #aten.layout<device = "cuda:0">>
    loops.store %0, %o[%i, %u, %j] : tensor<4x1x5xf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x1x5xf16, #aten.layout<device = "cuda:0">>
}
