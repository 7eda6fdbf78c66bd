// RUN: cuesta-opt %s --split-input-file -p join-launches
// ROUNDTRIP

// Four counters, each written where it is: one launch, whose programs pick their pointers.
kernel.func @next(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.constant 1.0 : f32
  %c = elem.add %a, %b : f32
  kernel.store %c, %o[%p] : f32
}
// CHECK:      kernel.func @next_of_4(%x: !kernel.ptr<f32>, %x_1: !kernel.ptr<f32>, %x_2: !kernel.ptr<f32>, %x_3: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>, %o_1: !kernel.ptr<f32>, %o_2: !kernel.ptr<f32>, %o_3: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4, 2], target = cuda> {
// CHECK-NEXT:   %x_4 = kernel.pick 0 of %x, %x_1, %x_2, %x_3 : !kernel.ptr<f32>
// CHECK-NEXT:   %o_4 = kernel.pick 0 of %o, %o_1, %o_2, %o_3 : !kernel.ptr<f32>
// CHECK-NEXT:   %p = kernel.program_id 1
// CHECK-NEXT:   kernel.load %x_4[%p]
// CHECK:      host.func @main
// CHECK-NEXT:   host.launch @next_of_4(%a, %b, %c, %d, %a, %b, %c, %d)
// CHECK-NEXT:   host.return
host.func @main(%a : tensor<2xf32, #aten.layout<device = "cuda:0">>, %b : tensor<2xf32, #aten.layout<device = "cuda:0">>, %c : tensor<2xf32, #aten.layout<device = "cuda:0">>, %d : tensor<2xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  host.launch @next(%a, %a) : tensor<2xf32, #aten.layout<device = "cuda:0">>, tensor<2xf32, #aten.layout<device = "cuda:0">>
  host.launch @next(%b, %b) : tensor<2xf32, #aten.layout<device = "cuda:0">>, tensor<2xf32, #aten.layout<device = "cuda:0">>
  host.launch @next(%c, %c) : tensor<2xf32, #aten.layout<device = "cuda:0">>, tensor<2xf32, #aten.layout<device = "cuda:0">>
  host.launch @next(%d, %d) : tensor<2xf32, #aten.layout<device = "cuda:0">>, tensor<2xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// What needs the results of others comes together behind them; buffers are made right before; what nobody joins keeps
// its place among its own. The sizes of buffers, of which the kernel knows nothing, may differ.
kernel.func @double(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.add %a, %a : f32
  kernel.store %b, %o[%p] : f32
}
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.func @double(
// CHECK:      host.func @main
// CHECK-NEXT:   %s = host.alloc
// CHECK-NEXT:   %t = host.alloc
// CHECK-NEXT:   %u = host.alloc
// CHECK-NEXT:   %v = host.alloc
// CHECK-NEXT:   host.launch @double_of_4(%a, %b, %a, %b, %s, %t, %u, %v)
// CHECK-NEXT:   %w = host.alloc
// CHECK-NEXT:   host.launch @negate(%s, %w)
// CHECK-NEXT:   %f = host.reinterpret %s
// CHECK-NEXT:   host.launch @double_of_4(%f, %t, %u, %v, %a, %c, %d, %e)
// CHECK-NEXT:   host.return %w
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1x3xf32, #aten.layout<device = "cuda:0">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:0">>, %e : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> (tensor<1xf32, #aten.layout<device = "cuda:0">>) attributes {aten.writes_to = [0, 2, 3, 4]} {
  %s = host.alloc : tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%a, %s) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  %t = host.alloc : tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%b, %t) : tensor<1x3xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  %w = host.alloc : tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%s, %w) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  %u = host.alloc : tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%a, %u) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  %v = host.alloc : tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%b, %v) : tensor<1x3xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  %f = host.reinterpret %s offset 0 : tensor<1xf32, #aten.layout<device = "cuda:0">> to tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%f, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%t, %c) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%u, %d) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @double(%v, %e) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return %w : tensor<1xf32, #aten.layout<device = "cuda:0">>
}
