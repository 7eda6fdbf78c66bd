// RUN: cuesta-opt %s --split-input-file -p free-buffers

// A launch that reads a buffer for the last time may write over it: point by point here, however many lanes at a time.
// %a is memory of the program's own; the input %x is not.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 10 lanes 8) {
    %a = kernel.load %x[%p * 10 + %j] : vector<8xf32>
    %b = elem.neg %a : vector<8xf32>
    kernel.store %b, %o[%p * 10 + %j] : vector<8xf32>
  }
}
// CHECK:      host.func @main
// CHECK-NEXT:   %a = host.alloc : tensor<4x10xf32>
// CHECK-NEXT:   host.launch @negate(%x, %a)
// CHECK-NEXT:   host.free %x
// CHECK-NEXT:   host.launch @negate(%a, %a)
// CHECK-NEXT:   host.return %a
// CHECK-NEXT: }
host.func @main(%x : tensor<4x10xf32>) -> (tensor<4x10xf32>) {
  %a = host.alloc : tensor<4x10xf32>
  host.launch @negate(%x, %a) : tensor<4x10xf32>, tensor<4x10xf32>
  %b = host.alloc : tensor<4x10xf32>
  host.launch @negate(%a, %b) : tensor<4x10xf32>, tensor<4x10xf32>
  host.return %b : tensor<4x10xf32>
}

// -----

// A row that is read twice before the loop that stores it, over what a library call gave, of other sizes.
kernel.func @shift(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %m = kernel.reduce maximum (%j = 0 to 8 lanes 8) {
    %a = kernel.load %x[%p * 8 + %j] : vector<8xf32>
    kernel.yield %a : vector<8xf32>
  } : f32
  %v = kernel.broadcast %m : f32 to vector<4xf32>
  kernel.for (%k = 0 to 8 lanes 4) {
    %a = kernel.load %x[%p * 8 + %k] : vector<4xf32>
    %b = elem.sub %a, %v : vector<4xf32>
    kernel.store %b, %o[%p * 8 + %k] : vector<4xf32>
  }
}
// CHECK:      host.func @main
// CHECK-NEXT:   %m = host.extern pure "aten.mm.default"(%x, %y)
// CHECK-NEXT:   host.free %x, %y
// CHECK-NEXT:   %b = host.reinterpret %m offset 0 : tensor<4x8xf32> to tensor<2x2x8xf32>
// CHECK-NEXT:   host.launch @shift(%m, %b)
// CHECK-NEXT:   host.free %m
// CHECK-NEXT:   host.return %b
// CHECK-NEXT: }
host.func @main(%x : tensor<4x3xf32>, %y : tensor<3x8xf32>) -> (tensor<2x2x8xf32>) {
  %m = host.extern pure "aten.mm.default"(%x, %y) : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %b = host.alloc : tensor<2x2x8xf32>
  host.launch @shift(%m, %b) : tensor<4x8xf32>, tensor<2x2x8xf32>
  host.return %b : tensor<2x2x8xf32>
}

// -----

// Near misses: another point's element; an element read after it is stored; one that the loop around it stores late;
// other bounds; a store with a mask; two buffers that are one; an index that was looked up.
kernel.func @reverse(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[3 - %p] : f32
  kernel.store %a, %o[%p] : f32
}
kernel.func @late(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>, %q : !kernel.ptr<f64>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %c = elem.constant 1.0 : f32
  kernel.store %c, %o[%p] : f32
  %a = kernel.load %x[%p] : f32
  %b = elem.convert %a : f32 to f64
  kernel.store %b, %q[%p] : f64
}
kernel.func @running(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  kernel.for (%i = 0 to 4) {
    %s = kernel.reduce sum (%j = 0 to 4) {
      %a = kernel.load %x[%j] : f32
      kernel.yield %a : f32
    } : f32
    kernel.store %s, %o[%i] : f32
  }
}
kernel.func @part(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2]> {
  %p = kernel.program_id 0
  %m = kernel.reduce maximum (%j = 0 to 4) {
    %a = kernel.load %x[%j] : f32
    kernel.yield %a : f32
  } : f32
  kernel.for (%j = 0 to 2) {
    kernel.store %m, %o[%p * 2 + %j] : f32
  }
}
kernel.func @masked(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %t = elem.constant true : i1
  kernel.store %a, %o[%p] if %t : f32
}
kernel.func @add(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = kernel.load %y[3 - %p] : f32
  %c = elem.add %a, %b : f32
  kernel.store %c, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        host.launch @reverse(%x, %a)
// CHECK:        host.launch @reverse(%a, %b)
// CHECK:        host.launch @late(%b, %a, %q)
// CHECK:        host.launch @running(%a, %b)
// CHECK:        host.launch @part(%b, %a)
// CHECK:        host.launch @masked(%a, %b)
// CHECK:        host.launch @add(%b, %b, %a)
// CHECK:        host.return %a, %q
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf64>) {
  %a = host.alloc : tensor<4xf32>
  host.launch @reverse(%x, %a) : tensor<4xf32>, tensor<4xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @reverse(%a, %b) : tensor<4xf32>, tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  %q = host.alloc : tensor<4xf64>
  host.launch @late(%b, %c, %q) : tensor<4xf32>, tensor<4xf32>, tensor<4xf64>
  %d = host.alloc : tensor<4xf32>
  host.launch @running(%c, %d) : tensor<4xf32>, tensor<4xf32>
  %e = host.alloc : tensor<4xf32>
  host.launch @part(%d, %e) : tensor<4xf32>, tensor<4xf32>
  %f = host.alloc : tensor<4xf32>
  host.launch @masked(%e, %f) : tensor<4xf32>, tensor<4xf32>
  %g = host.alloc : tensor<4xf32>
  host.launch @add(%f, %f, %g) : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  host.return %g, %q : tensor<4xf32>, tensor<4xf64>
}

// -----

// Near misses: a buffer that is read again, one that is returned, and what a call gave that may be someone else's.
// No elements, and sizes that are equal as expressions only.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [s0 * 2]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        host.launch @negate(%m, %a)
// CHECK:        host.launch @negate(%a, %b)
// CHECK:        host.launch @negate(%b, %c)
// CHECK:        %d = host.reinterpret %b offset 0
// CHECK-NEXT:   host.launch @negate(%b, %d)
// CHECK:        host.return %c, %d, %a
host.func @main(%x : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>) -> (tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>, tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>, tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>) attributes {sym.symbols = #sym.symbols<s0 in [0, 64]>} {
  %m = host.extern pure "aten.cumsum.default"(%x, 0) : (tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>) -> tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
  %a = host.alloc : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
  host.launch @negate(%m, %a) : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>, tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
  %b = host.alloc : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
  host.launch @negate(%a, %b) : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>, tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
  %c = host.alloc : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
  host.launch @negate(%b, %c) : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>, tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
  %d = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>
  host.launch @negate(%b, %d) : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>, tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>
  host.return %c, %d, %a : tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>, tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>, tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>
}
