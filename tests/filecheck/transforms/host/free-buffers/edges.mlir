// RUN: cuesta-opt %s --split-input-file -p free-buffers

// Nothing to free; rank 0; no elements; an input that is returned.
// CHECK:      host.func @main
// CHECK-NEXT:   host.return %x, %e
// CHECK-NEXT: }
host.func @main(%x : tensor<f32>, %e : tensor<0xf32>) -> (tensor<f32>, tensor<0xf32>) {
  host.return %x, %e : tensor<f32>, tensor<0xf32>
}

// -----

// Symbols: sizes that are equal as expressions are one type. A value of type !sym.int is no buffer.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [s0]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[s0 - %i - 1] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %n = sym.value : !sym.int<s0>
// CHECK-NEXT:   %a = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:   host.launch @copy(%x, %a)
// CHECK-NEXT:   host.free %x : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:   %b = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:   host.launch @copy(%a, %b)
// CHECK-NEXT:   host.launch @copy(%b, %a)
// CHECK-NEXT:   host.free %b : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:   host.return %a, %n : tensor<?xf32, #aten.layout<sizes = [s0]>>, !sym.int<s0>
// CHECK-NEXT: }
host.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> (tensor<?xf32, #aten.layout<sizes = [s0]>>, !sym.int<s0>) attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %n = sym.value : !sym.int<s0>
  %a = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.launch @copy(%x, %a) : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>
  %b = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.launch @copy(%a, %b) : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>
  %c = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.launch @copy(%b, %c) : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.return %c, %n : tensor<?xf32, #aten.layout<sizes = [s0]>>, !sym.int<s0>
}
