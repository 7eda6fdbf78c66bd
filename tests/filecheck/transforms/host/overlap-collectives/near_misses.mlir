// RUN: cuesta-opt %s --split-input-file -p overlap-collectives
// SLOW

// A start stays behind who changes what it reads, by another name too, and a wait in front of who changes that.
kernel.func @scatter(%y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) updates 1 schedule #kernel.schedule<grid = [2]> {
  %p = kernel.program_id 0
  %a = kernel.load %y[%p] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   host.launch @scatter(%y, %x)
// CHECK-NEXT:   %v = host.reinterpret %x offset 0
// CHECK-NEXT:   %s = host.extern "_c10d_functional::all_gather_into_tensor.default"(%v, 2, "0")
// CHECK-NEXT:   %w = host.extern "_c10d_functional::wait_tensor.default"(%s)
// CHECK-NEXT:   host.launch @scatter(%z, %x)
// CHECK-NEXT:   host.return %w
host.func @main(%x : tensor<4xf32>, %y : tensor<2xf32>, %z : tensor<2xf32>) -> (tensor<4x2xf32>) attributes {aten.writes_to = [0]} {
  host.launch @scatter(%y, %x) : tensor<2xf32>, tensor<4xf32>
  %v = host.reinterpret %x offset 0 : tensor<4xf32> to tensor<2x2xf32>
  %s = host.extern "_c10d_functional::all_gather_into_tensor.default"(%v, 2, "0") : (tensor<2x2xf32>) -> tensor<4x2xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%s) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  host.launch @scatter(%z, %x) : tensor<2xf32>, tensor<4xf32>
  host.return %w : tensor<4x2xf32>
}

// -----

// A start passes no other start, whatever group that is of, and nothing moves where no kernel would be beside it.
// CHECK:      host.func @main
// CHECK-NEXT:   %m = host.extern pure "aten.cos.default"(%x)
// CHECK-NEXT:   %s = host.extern "_c10d_functional::all_reduce.default"(%m, "sum", "0")
// CHECK-NEXT:   %a = host.alloc
// CHECK-NEXT:   %t = host.extern "_c10d_functional::all_reduce.default"(%x, "sum", "1")
// CHECK-NEXT:   %w = host.extern "_c10d_functional::wait_tensor.default"(%s)
// CHECK-NEXT:   %u = host.extern "_c10d_functional::wait_tensor.default"(%t)
// CHECK-NEXT:   host.return %w, %u
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %m = host.extern pure "aten.cos.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = host.extern "_c10d_functional::all_reduce.default"(%m, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  %a = host.alloc : tensor<4xf32>
  %t = host.extern "_c10d_functional::all_reduce.default"(%x, "sum", "1") : (tensor<4xf32>) -> tensor<4xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %u = host.extern "_c10d_functional::wait_tensor.default"(%t) : (tensor<4xf32>) -> tensor<4xf32>
  host.return %w, %u : tensor<4xf32>, tensor<4xf32>
}

// -----

// A start that needs what another gives stays behind its wait, which stays where it is: its result is read at once.
// CHECK:      host.func @main
// CHECK-NEXT:   %s = host.extern "_c10d_functional::all_reduce.default"(%x, "sum", "0")
// CHECK-NEXT:   %w = host.extern "_c10d_functional::wait_tensor.default"(%s)
// CHECK-NEXT:   %t = host.extern "_c10d_functional::all_reduce.default"(%w, "sum", "0")
// CHECK-NEXT:   %u = host.extern "_c10d_functional::wait_tensor.default"(%t)
// CHECK-NEXT:   host.return %u
host.func @main(%x : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %s = host.extern "_c10d_functional::all_reduce.default"(%x, "sum", "0") : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%s) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = host.extern "_c10d_functional::all_reduce.default"(%w, "sum", "0") : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = host.extern "_c10d_functional::wait_tensor.default"(%t) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  host.return %u : tensor<4x4xf32>
}

// -----

// Not more is received early than a bound says, but for one: the second of two large ones stays behind the kernel in front of
// which it would be there beside the first.
// CHECK:      host.func @main
// CHECK-NEXT:   %s = host.extern "_c10d_functional::all_gather_into_tensor.default"(%x, 2, "0")
// CHECK-NEXT:   %m = host.extern pure "aten.cos.default"(%z)
// CHECK-NEXT:   %t = host.extern "_c10d_functional::all_gather_into_tensor.default"(%y, 2, "0")
// CHECK-NEXT:   %n = host.extern pure "aten.cos.default"(%m)
// CHECK-NEXT:   %w = host.extern "_c10d_functional::wait_tensor.default"(%s)
// CHECK-NEXT:   %o = host.extern pure "aten.cos.default"(%w)
// CHECK-NEXT:   %u = host.extern "_c10d_functional::wait_tensor.default"(%t)
// CHECK-NEXT:   host.return %n, %o, %u
host.func @main(%x : tensor<10000000xf32>, %y : tensor<10000000xf32>, %z : tensor<4xf32>) -> (tensor<4xf32>, tensor<20000000xf32>, tensor<20000000xf32>) {
  %m = host.extern pure "aten.cos.default"(%z) : (tensor<4xf32>) -> tensor<4xf32>
  %s = host.extern "_c10d_functional::all_gather_into_tensor.default"(%x, 2, "0") : (tensor<10000000xf32>) -> tensor<20000000xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%s) : (tensor<20000000xf32>) -> tensor<20000000xf32>
  %n = host.extern pure "aten.cos.default"(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %o = host.extern pure "aten.cos.default"(%w) : (tensor<20000000xf32>) -> tensor<20000000xf32>
  %t = host.extern "_c10d_functional::all_gather_into_tensor.default"(%y, 2, "0") : (tensor<10000000xf32>) -> tensor<20000000xf32>
  %u = host.extern "_c10d_functional::wait_tensor.default"(%t) : (tensor<20000000xf32>) -> tensor<20000000xf32>
  host.return %n, %o, %u : tensor<4xf32>, tensor<20000000xf32>, tensor<20000000xf32>
}
