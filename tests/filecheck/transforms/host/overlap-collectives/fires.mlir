// RUN: cuesta-opt %s --split-input-file -p overlap-collectives

// A start rises to where its operand is written, with the alias that it reads; a wait sinks to the first who reads.
kernel.func @add(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.add %a, %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %a = host.alloc
// CHECK-NEXT:   host.launch @add(%x, %a)
// CHECK-NEXT:   %v = host.reinterpret %a offset 0
// CHECK-NEXT:   %s = host.extern "_c10d_functional::all_reduce.default"(%v, "sum", "0")
// CHECK-NEXT:   %b = host.alloc
// CHECK-NEXT:   host.launch @add(%x, %b)
// CHECK-NEXT:   %c = host.alloc
// CHECK-NEXT:   host.launch @add(%b, %c)
// CHECK-NEXT:   %d = host.alloc
// CHECK-NEXT:   %w = host.extern "_c10d_functional::wait_tensor.default"(%s)
// CHECK-NEXT:   %u = host.reinterpret %w offset 0
// CHECK-NEXT:   host.launch @add(%u, %d)
// CHECK-NEXT:   host.return %c, %d
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = host.alloc : tensor<4xf32>
  host.launch @add(%x, %a) : tensor<4xf32>, tensor<4xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @add(%x, %b) : tensor<4xf32>, tensor<4xf32>
  %v = host.reinterpret %a offset 0 : tensor<4xf32> to tensor<2x2xf32>
  %s = host.extern "_c10d_functional::all_reduce.default"(%v, "sum", "0") : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%s) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = host.reinterpret %w offset 0 : tensor<2x2xf32> to tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @add(%b, %c) : tensor<4xf32>, tensor<4xf32>
  %d = host.alloc : tensor<4xf32>
  host.launch @add(%u, %d) : tensor<4xf32>, tensor<4xf32>
  host.return %c, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

// Two starts rise in their order, above a wait and a call of a library, and both waits sink; who only waits for what another
// program started sinks, too.
// CHECK:      host.func @main
// CHECK-NEXT:   %s = host.extern "_c10d_functional::all_gather_into_tensor.default"(%x, 2, "0")
// CHECK-NEXT:   %t = host.extern "_c10d_functional::reduce_scatter_tensor.default"(%y, "sum", 2, "1")
// CHECK-NEXT:   %m = host.extern pure "aten.mm.default"(%z, %z)
// CHECK-NEXT:   %n = host.extern pure "aten.mm.default"(%m, %z)
// CHECK-NEXT:   %w = host.extern "_c10d_functional::wait_tensor.default"(%s)
// CHECK-NEXT:   %k = host.extern pure "aten.mm.default"(%w, %n)
// CHECK-NEXT:   %o = host.extern "_c10d_functional::wait_tensor.default"(%t)
// CHECK-NEXT:   %g = host.extern "_c10d_functional::wait_tensor.default"(%given)
// CHECK-NEXT:   %l = host.extern pure "aten.mm.default"(%o, %g)
// CHECK-NEXT:   host.return %k, %l
host.func @main(%x : tensor<2x4xf32>, %y : tensor<4x4xf32>, %z : tensor<4x4xf32>, %given : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<2x4xf32>) {
  %g = host.extern "_c10d_functional::wait_tensor.default"(%given) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = host.extern pure "aten.mm.default"(%z, %z) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = host.extern "_c10d_functional::all_gather_into_tensor.default"(%x, 2, "0") : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%s) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = host.extern pure "aten.mm.default"(%m, %z) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = host.extern "_c10d_functional::reduce_scatter_tensor.default"(%y, "sum", 2, "1") : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %o = host.extern "_c10d_functional::wait_tensor.default"(%t) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %k = host.extern pure "aten.mm.default"(%w, %n) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l = host.extern pure "aten.mm.default"(%o, %g) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  host.return %k, %l : tensor<4x4xf32>, tensor<2x4xf32>
}
