// RUN: cuesta-opt %s --split-input-file -p pool-buffers

// What lives between two calls shares one allocation: %b, of another type, takes the place of %a, which is dead by then;
// %c lies beside both. What is returned, or read by a call, is left alone.
kernel.func @widen(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f64>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[19 - %i] : f32
  %b = elem.convert %a : f32 to f64
  kernel.store %b, %o[%i] : f64
}
kernel.func @narrow(%x : !kernel.ptr<f64>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[19 - %i] : f64
  %b = elem.convert %a : f64 to f32
  kernel.store %b, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %m = host.extern pure "aten.cumsum.default"(%x, 0)
// CHECK-NEXT:   host.free %x : tensor<20xf32>
// CHECK-NEXT:   %arena = host.alloc : tensor<320xui8>
// CHECK-NEXT:   %a = host.place %arena at 0 : tensor<320xui8> to tensor<20xf64>
// CHECK-NEXT:   host.launch @widen(%m, %a)
// CHECK-NEXT:   host.free %m : tensor<20xf32>
// CHECK-NEXT:   %c = host.place %arena at 192 : tensor<320xui8> to tensor<20xf32>
// CHECK-NEXT:   host.launch @narrow(%a, %c)
// CHECK-NEXT:   %b = host.place %arena at 0 : tensor<320xui8> to tensor<4x5xf64>
// CHECK-NEXT:   host.launch @widen(%c, %b)
// CHECK-NEXT:   %d = host.alloc : tensor<20xf32>
// CHECK-NEXT:   host.launch @narrow(%b, %d)
// CHECK-NEXT:   host.free %arena : tensor<320xui8>
// CHECK-NEXT:   %n = host.extern pure "aten.cumsum.default"(%d, 0)
// CHECK-NEXT:   host.free %d : tensor<20xf32>
// CHECK-NEXT:   host.return %n
// CHECK-NEXT: }
host.func @main(%x : tensor<20xf32>) -> (tensor<20xf32>) {
  %m = host.extern pure "aten.cumsum.default"(%x, 0) : (tensor<20xf32>) -> tensor<20xf32>
  host.free %x : tensor<20xf32>
  %a = host.alloc : tensor<20xf64>
  host.launch @widen(%m, %a) : tensor<20xf32>, tensor<20xf64>
  host.free %m : tensor<20xf32>
  %c = host.alloc : tensor<20xf32>
  host.launch @narrow(%a, %c) : tensor<20xf64>, tensor<20xf32>
  host.free %a : tensor<20xf64>
  %b = host.alloc : tensor<4x5xf64>
  host.launch @widen(%c, %b) : tensor<20xf32>, tensor<4x5xf64>
  host.free %c : tensor<20xf32>
  %d = host.alloc : tensor<20xf32>
  host.launch @narrow(%b, %d) : tensor<4x5xf64>, tensor<20xf32>
  host.free %b : tensor<4x5xf64>
  %n = host.extern pure "aten.cumsum.default"(%d, 0) : (tensor<20xf32>) -> tensor<20xf32>
  host.free %d : tensor<20xf32>
  host.return %n : tensor<20xf32>
}

// -----

// Near misses: one buffer alone in its run; one that a call reads; one that lives across a call; sizes known later.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [s0]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[s0 - %i - 1] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%i] : f32
}
kernel.func @same(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[3 - %i] : f32
  kernel.store %a, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NOT:    host.place
host.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>, %y : tensor<4xf32>) -> (tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<4xf32>) attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %a = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.launch @negate(%x, %a) : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>
  %b = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.launch @negate(%a, %b) : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>
  %c = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.launch @negate(%b, %c) : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0]>>
  %d = host.alloc : tensor<4xf32>
  host.launch @same(%y, %d) : tensor<4xf32>, tensor<4xf32>
  %e = host.alloc : tensor<4xf32>
  host.launch @same(%d, %e) : tensor<4xf32>, tensor<4xf32>
  %f = host.alloc : tensor<4xf32>
  host.launch @same(%e, %f) : tensor<4xf32>, tensor<4xf32>
  %m = host.extern pure "aten.cumsum.default"(%f, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %g = host.alloc : tensor<4xf32>
  host.launch @same(%e, %g) : tensor<4xf32>, tensor<4xf32>
  %h = host.extern pure "aten.add.Tensor"(%m, %g) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return %c, %h : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<4xf32>
}

// -----

// No elements; strides that leave gaps; buffers that are freed together with one that stays.
kernel.func @pair(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<i1>, %p : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  %t = elem.lt %a, %a : f32
  kernel.store %t, %o[%i] : i1
  kernel.store %a, %p[%i * 20] : f32
}
kernel.func @none(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [0]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
kernel.func @join(%o : !kernel.ptr<i1>, %p : !kernel.ptr<f32>, %e : !kernel.ptr<f32>) outs(%r : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3]> {
  %i = kernel.program_id 0
  %t = kernel.load %o[%i] : i1
  %a = kernel.load %p[%i * 20] : f32
  %b = elem.neg %a : f32
  %c = elem.select %t, %a, %b : f32
  kernel.store %c, %r[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %arena = host.alloc : tensor<256xui8>
// CHECK-NEXT:   %t = host.place %arena at 0 : tensor<256xui8> to tensor<3xi1>
// CHECK-NEXT:   %p = host.place %arena at 64 : tensor<256xui8> to tensor<3xf32, #aten.layout<strides = [20]>>
// CHECK-NEXT:   host.launch @pair(%x, %t, %p)
// CHECK-NEXT:   %e = host.place %arena at 256 : tensor<256xui8> to tensor<0xf32>
// CHECK-NEXT:   host.launch @none(%x, %e)
// CHECK-NEXT:   %r = host.alloc : tensor<3xf32>
// CHECK-NEXT:   host.launch @join(%t, %p, %e, %r)
// CHECK-NEXT:   host.free %arena : tensor<256xui8>
// CHECK-NEXT:   host.free %x : tensor<3xf32>
// CHECK-NEXT:   host.return %r
host.func @main(%x : tensor<3xf32>) -> (tensor<3xf32>) {
  %t = host.alloc : tensor<3xi1>
  %p = host.alloc : tensor<3xf32, #aten.layout<strides = [20]>>
  host.launch @pair(%x, %t, %p) : tensor<3xf32>, tensor<3xi1>, tensor<3xf32, #aten.layout<strides = [20]>>
  %e = host.alloc : tensor<0xf32>
  host.launch @none(%x, %e) : tensor<3xf32>, tensor<0xf32>
  %r = host.alloc : tensor<3xf32>
  host.launch @join(%t, %p, %e, %r) : tensor<3xi1>, tensor<3xf32, #aten.layout<strides = [20]>>, tensor<0xf32>, tensor<3xf32>
  host.free %t, %x, %p, %e : tensor<3xi1>, tensor<3xf32>, tensor<3xf32, #aten.layout<strides = [20]>>, tensor<0xf32>
  host.return %r : tensor<3xf32>
}

// -----

// Each device has its arena.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK:        %arena = host.alloc : tensor<256xui8>
// CHECK-NEXT:   %a = host.place %arena at 0 : tensor<256xui8> to tensor<20xf32>
// CHECK:        %arena_1 = host.alloc : tensor<256xui8, #aten.layout<device = "cuda:0">>
// CHECK-NEXT:   %c = host.place %arena_1 at 0 :
// CHECK:        %b = host.place %arena at 128 : tensor<256xui8> to tensor<20xf32>
// CHECK:        %d = host.place %arena_1 at 128 : tensor<256xui8, #aten.layout<device = "cuda:0">> to tensor<20xf32, #aten.layout<device = "cuda:0">>
// CHECK:        host.free %arena : tensor<256xui8>
// CHECK:        host.free %arena_1 : tensor<256xui8, #aten.layout<device = "cuda:0">>
host.func @main(%x : tensor<20xf32>, %y : tensor<20xf32, #aten.layout<device = "cuda:0">>)
    -> (tensor<20xf32>, tensor<20xf32, #aten.layout<device = "cuda:0">>) {
  %a = host.alloc : tensor<20xf32>
  host.launch @copy(%x, %a) : tensor<20xf32>, tensor<20xf32>
  %c = host.alloc : tensor<20xf32, #aten.layout<device = "cuda:0">>
  host.launch @copy(%y, %c) : tensor<20xf32, #aten.layout<device = "cuda:0">>, tensor<20xf32, #aten.layout<device = "cuda:0">>
  %b = host.alloc : tensor<20xf32>
  host.launch @copy(%a, %b) : tensor<20xf32>, tensor<20xf32>
  host.free %a : tensor<20xf32>
  %d = host.alloc : tensor<20xf32, #aten.layout<device = "cuda:0">>
  host.launch @copy(%c, %d) : tensor<20xf32, #aten.layout<device = "cuda:0">>, tensor<20xf32, #aten.layout<device = "cuda:0">>
  host.free %c : tensor<20xf32, #aten.layout<device = "cuda:0">>
  %e = host.alloc : tensor<20xf32>
  host.launch @copy(%b, %e) : tensor<20xf32>, tensor<20xf32>
  host.free %b : tensor<20xf32>
  %f = host.alloc : tensor<20xf32, #aten.layout<device = "cuda:0">>
  host.launch @copy(%d, %f) : tensor<20xf32, #aten.layout<device = "cuda:0">>, tensor<20xf32, #aten.layout<device = "cuda:0">>
  host.free %d : tensor<20xf32, #aten.layout<device = "cuda:0">>
  host.return %e, %f : tensor<20xf32>, tensor<20xf32, #aten.layout<device = "cuda:0">>
}
