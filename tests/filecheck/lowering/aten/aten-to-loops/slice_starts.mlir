// RUN: cuesta-opt %s -p aten-to-loops --split-input-file

// Whether a start counts from the end is for the symbol's range to say, not for the sign that is written: −s1 is 0 or more here.
// CHECK:      loops.view %x by (d0, d1)[s1] -> (d0, d1 - s1)
func.func @main(%n : !sym.int<s1>, %x : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4x?xf32, #aten.layout<sizes = [4, s0 + s1], strides = [s0, 1]>> attributes {sym.symbols = #sym.symbols<s0 in [4, inf], s1 in [-3, 0]>} {
  %y = aten.slice.Tensor(%x, 1, -s1, 9223372036854775807) : (tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4x?xf32, #aten.layout<sizes = [4, s0 + s1], strides = [s0, 1]>>
  func.return %y : tensor<4x?xf32, #aten.layout<sizes = [4, s0 + s1], strides = [s0, 1]>>
}

// -----

// CHECK:      loops.view %x by (d0, d1)[s0, s1] -> (d0, d1 + max(s0 - s1, 0))
func.func @main(%n : !sym.int<s1>, %x : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4x?xf32, #aten.layout<sizes = [4, s1], strides = [s0, 1]>> attributes {sym.symbols = #sym.symbols<s0 in [4, inf], s1 in [2, 3]>} {
  %y = aten.slice.Tensor(%x, 1, -s1, 9223372036854775807) : (tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4x?xf32, #aten.layout<sizes = [4, s1], strides = [s0, 1]>>
  func.return %y : tensor<4x?xf32, #aten.layout<sizes = [4, s1], strides = [s0, 1]>>
}

// -----

// Near miss: −0 is the start, −1 the last place. Eager knows which.
// CHECK:      loops.extern {{.*}}"aten.slice.Tensor"(%x, 1, -s1
func.func @main(%n : !sym.int<s1>, %x : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4x?xf32, #aten.layout<sizes = [4, s1], strides = [s0, 1]>> attributes {sym.symbols = #sym.symbols<s0 in [4, inf], s1 in [0, 3]>} {
  %y = aten.slice.Tensor(%x, 1, -s1, 9223372036854775807) : (tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4x?xf32, #aten.layout<sizes = [4, s1], strides = [s0, 1]>>
  func.return %y : tensor<4x?xf32, #aten.layout<sizes = [4, s1], strides = [s0, 1]>>
}
