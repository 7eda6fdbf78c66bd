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

// -----

// A counter: who reads the old value comes first. Where two such launches move to one place, they keep their order.
kernel.func @next(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.constant 1.0 : f32
  %c = elem.add %a, %b : f32
  kernel.store %c, %o[%p] : f32
}
kernel.func @scale(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>, %z : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[0] : f32
  %b = kernel.load %y[0] : f32
  %c = kernel.load %z[%p] : f32
  %d = elem.mul %a, %b : f32
  %e = elem.mul %c, %d : f32
  kernel.store %e, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   host.launch @scale(%n, %m, %x, %x)
// CHECK-NEXT:   host.launch @next(%n, %n)
// CHECK-NEXT:   host.launch @next(%m, %m)
// CHECK-NEXT:   host.return
host.func @main(%n : tensor<1xf32>, %m : tensor<1xf32>, %x : tensor<4xf32>) -> () attributes {aten.writes_to = [0, 1, 2]} {
  %a = host.alloc : tensor<1xf32>
  host.launch @next(%n, %a) : tensor<1xf32>, tensor<1xf32>
  %b = host.alloc : tensor<1xf32>
  host.launch @next(%m, %b) : tensor<1xf32>, tensor<1xf32>
  %o = host.alloc : tensor<4xf32>
  host.launch @scale(%n, %m, %x, %o) : tensor<1xf32>, tensor<1xf32>, tensor<4xf32>, tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%n, %a) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %s = host.extern "aten.copy_.default"(%m, %b) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %t = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return
}

// -----

// What may raise an IndexError comes before any argument is written.
kernel.func @fill() outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %c = elem.constant 1.0 : f32
  kernel.store %c, %o[%p] : f32
}
kernel.func @gather(%x : !kernel.ptr<f32>, %n : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %i = kernel.load %n[%p] : i64
  %j = kernel.bound %i, 4 : i64
  %a = kernel.load %x[%j] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %b = host.alloc
// CHECK-NEXT:   host.launch @gather(%y, %n, %b)
// CHECK-NEXT:   host.launch @fill(%x)
// CHECK-NEXT:   host.return %b
host.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>, %n : tensor<4xi64>) -> (tensor<4xf32>) attributes {aten.writes_to = [0]} {
  %o = host.alloc : tensor<4xf32>
  host.launch @fill(%o) : tensor<4xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @gather(%y, %n, %b) : tensor<4xf32>, tensor<4xi64>, tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return %b : tensor<4xf32>
}
