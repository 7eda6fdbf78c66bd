// RUN: cuesta-opt %s -p aten-to-loops --split-input-file

// A library that has no products of 16 bits with results in f32 is given factors of f32, which lie as they did.
// CHECK:      %[[A:[0-9]+]] = loops.nest {{.*}}: tensor<4x8xf32, #aten.layout<strides = [1, 4]>>
// CHECK:        loops.load %a
// CHECK:      %[[B:[0-9]+]] = loops.nest {{.*}}: tensor<8x5xf32>
// CHECK:        loops.load %b
// CHECK:      loops.extern pure "aten.mm.default"(%[[A]], %[[B]]) : (tensor<4x8xf32, #aten.layout<strides = [1, 4]>>, tensor<8x5xf32>) -> tensor<4x5xf32>
func.func @main(%a : tensor<4x8xbf16, #aten.layout<strides = [1, 4]>>, %b : tensor<8x5xbf16, #aten.layout<strides = [10, 2]>>) -> tensor<4x5xf32> {
  %m = aten.mm.dtype(%a, %b, torch.float32) : (tensor<4x8xbf16, #aten.layout<strides = [1, 4]>>, tensor<8x5xbf16, #aten.layout<strides = [10, 2]>>) -> tensor<4x5xf32>
  func.return %m : tensor<4x5xf32>
}

// -----
// What is added to may be of either type; so may a batch of none.
// CHECK: loops.extern pure "aten.addmm.default"(%x, {{.*}}, {{.*}}, beta = 2)
// CHECK: loops.extern pure "aten.baddbmm.default"(
func.func @main(%x : tensor<4x5xf32>, %a : tensor<4x8xf16>, %b : tensor<8x5xf16>, %y : tensor<0x2x2xf16>, %c : tensor<0x2x2xf16>) -> (tensor<4x5xf32>, tensor<0x2x2xf32>) {
  %m = aten.addmm.dtype(%x, %a, %b, torch.float32, beta = 2) : (tensor<4x5xf32>, tensor<4x8xf16>, tensor<8x5xf16>) -> tensor<4x5xf32>
  %n = aten.baddbmm.dtype(%y, %c, %c, torch.float32) : (tensor<0x2x2xf16>, tensor<0x2x2xf16>, tensor<0x2x2xf16>) -> tensor<0x2x2xf32>
  func.return %m, %n : tensor<4x5xf32>, tensor<0x2x2xf32>
}

// -----
// A GPU's library does it itself.
// CHECK: loops.extern pure "aten.mm.dtype"(%a, %b, torch.float32)
func.func @main(%a : tensor<4x8xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<8x5xbf16, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">> {
  %m = aten.mm.dtype(%a, %b, torch.float32) : (tensor<4x8xbf16, #aten.layout<device = "cuda:0">>, tensor<8x5xbf16, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  func.return %m : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}
