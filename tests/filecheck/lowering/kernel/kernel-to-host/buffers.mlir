// RUN: cuesta-opt %s --split-input-file -p kernel-to-host

// Every result of a launch is memory that the launch writes to; names and what the caller gets stay.
kernel.func @negate_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>, %p : !kernel.ptr<i1>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  %b = elem.neg %a : f32
  %c = elem.lt %a, %b : f32
  kernel.store %b, %o[%i] : f32
  kernel.store %c, %p[%i] : i1
}
// CHECK:      host.func @main
// CHECK-NEXT:   %y = host.alloc : tensor<4xf32>
// CHECK-NEXT:   %z = host.alloc : tensor<4xi1>
// CHECK-NEXT:   host.launch @negate_0(%x, %y, %z)
// CHECK-NEXT:   %m = host.extern pure "aten.cumsum.default"(%y, 0)
// CHECK-NEXT:   %n = aten.literal none : !aten.literal
// CHECK-NEXT:   host.return %z, %m, %n : tensor<4xi1>, tensor<4xf32>, !aten.literal
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> (tensor<4xi1>, tensor<4xf32>, !aten.literal) {
  %y, %z = kernel.launch @negate_0(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %m = loops.extern pure "aten.cumsum.default"(%y, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %n = aten.literal none : !aten.literal
  func.return %z, %m, %n : tensor<4xi1>, tensor<4xf32>, !aten.literal
}

// -----

// Views are the same memory: an offset and strides. One that has no elements has any.
// CHECK:      host.func @main
// CHECK-NEXT:   %s = host.reinterpret %x offset 2 : tensor<4x8xf32> to tensor<2x4xf32, #aten.layout<strides = [3, 8]>>
// CHECK-NEXT:   %t = host.reinterpret %s offset 19 : tensor<2x4xf32, #aten.layout<strides = [3, 8]>> to tensor<f32>
// CHECK-NEXT:   %u = host.reinterpret %e offset 0 : tensor<0x8xf32> to tensor<0xf32>
// CHECK-NEXT:   %w = host.reinterpret %e offset 0 : tensor<0x8xf32> to tensor<0x2xf32, #aten.layout<strides = [8, 1]>>
// CHECK-NEXT:   host.return %s, %t, %u, %w : tensor<2x4xf32, #aten.layout<strides = [3, 8]>>, tensor<f32>, tensor<0xf32>, tensor<0x2xf32, #aten.layout<strides = [8, 1]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>, %e : tensor<0x8xf32>) -> (tensor<2x4xf32, #aten.layout<strides = [3, 8]>>, tensor<f32>, tensor<0xf32>, tensor<0x2xf32, #aten.layout<strides = [8, 1]>>) {
  %s = loops.view %x by (d0, d1) -> (d1, d0 * 3 + 2) : tensor<4x8xf32> to tensor<2x4xf32, #aten.layout<strides = [3, 8]>>
  %t = loops.view %s by () -> (1, 2) : tensor<2x4xf32, #aten.layout<strides = [3, 8]>> to tensor<f32>
  %u = loops.view %e by (d0) -> (d0 mod 3, d0 floordiv 3) : tensor<0x8xf32> to tensor<0xf32>
  %w = loops.view %e by (d0, d1) -> (d0, d1 + 5) : tensor<0x8xf32> to tensor<0x2xf32, #aten.layout<strides = [8, 1]>>
  func.return %s, %t, %u, %w : tensor<2x4xf32, #aten.layout<strides = [3, 8]>>, tensor<f32>, tensor<0xf32>, tensor<0x2xf32, #aten.layout<strides = [8, 1]>>
}

// -----

// Symbols: in sizes, in offsets, as values; the attributes of @main are kept.
// CHECK:      host.func @main
// CHECK-NEXT:   %s = host.reinterpret %x offset s0 * 8 - 8 : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>> to tensor<8xf32>
// CHECK-NEXT:   %n = sym.value : !sym.int<s0 * 2>
// CHECK-NEXT:   host.return %s, %n
// CHECK-NEXT: }
func.func @main(%x : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>) -> (tensor<8xf32>, !sym.int<s0 * 2>) attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %s = loops.view %x by (d0)[s0] -> (s0 - 1, d0) : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>> to tensor<8xf32>
  %n = sym.value : !sym.int<s0 * 2>
  func.return %s, %n : tensor<8xf32>, !sym.int<s0 * 2>
}
