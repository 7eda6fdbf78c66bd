// RUN: cuesta-opt %s --split-input-file -p write-in-place

// The kernel writes its result where it is to end up: it reads each element of %x before it writes the same.
kernel.func @add(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = kernel.load %y[3 - %p] : f32
  %c = elem.add %a, %b : f32
  kernel.store %c, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   host.launch @add(%x, %y, %x)
// CHECK-NEXT:   host.return
// CHECK-NEXT: }
host.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>) -> () attributes {aten.writes_to = [0]} {
  %o = host.alloc : tensor<4xf32>
  host.launch @add(%x, %y, %o) : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return
}

// -----

// Whoever reads the result reads the argument. An argument whose old elements nobody reads; one that is returned, which
// holds the result for the caller too; uses before the launch, by another name.
kernel.func @reverse(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[3 - %p] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %b = host.alloc : tensor<4xf32>
// CHECK-NEXT:   %v = host.reinterpret %x offset 0 : tensor<4xf32> to tensor<2x2xf32>
// CHECK-NEXT:   host.launch @reverse(%v, %b)
// CHECK-NEXT:   host.launch @reverse(%y, %x)
// CHECK-NEXT:   %m = host.extern pure "aten.cumsum.default"(%x, 0)
// CHECK-NEXT:   host.return %b, %m, %x
// CHECK-NEXT: }
host.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {aten.writes_to = [0]} {
  %b = host.alloc : tensor<4xf32>
  %v = host.reinterpret %x offset 0 : tensor<4xf32> to tensor<2x2xf32>
  host.launch @reverse(%v, %b) : tensor<2x2xf32>, tensor<4xf32>
  %o = host.alloc : tensor<4xf32>
  host.launch @reverse(%y, %o) : tensor<4xf32>, tensor<4xf32>
  %m = host.extern pure "aten.cumsum.default"(%o, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return %b, %m, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A copy of the argument that a later kernel changes is not made: the argument is what is changed. On a GPU an index out of
// range loses the context, so there is no call that fails and leaves its inputs alone.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  kernel.store %a, %o[%p] : f32
}
kernel.func @scatter(%k : !kernel.ptr<i64>, %y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) updates 1 schedule #kernel.schedule<grid = [2], target = cuda> {
  %p = kernel.program_id 0
  %n = kernel.load %k[%p] : i64
  %r = kernel.bound %n, 4 : i64
  %a = kernel.load %y[%p] : f32
  kernel.atomic assign_any %a, %o[%r] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   host.launch @scatter(%k, %y, %x)
// CHECK-NEXT:   host.return
// CHECK-NEXT: }
host.func @main(%x : tensor<4xf32, #aten.layout<device = "cuda:0">>, %k : tensor<2xi64, #aten.layout<device = "cuda:0">>, %y : tensor<2xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0]} {
  %o = host.alloc : tensor<4xf32, #aten.layout<device = "cuda:0">>
  host.launch @copy(%x, %o) : tensor<4xf32, #aten.layout<device = "cuda:0">>, tensor<4xf32, #aten.layout<device = "cuda:0">>
  host.launch @scatter(%k, %y, %o) : tensor<2xi64, #aten.layout<device = "cuda:0">>, tensor<2xf32, #aten.layout<device = "cuda:0">>, tensor<4xf32, #aten.layout<device = "cuda:0">>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32, #aten.layout<device = "cuda:0">>, tensor<4xf32, #aten.layout<device = "cuda:0">>) -> tensor<4xf32, #aten.layout<device = "cuda:0">>
  host.return
}
