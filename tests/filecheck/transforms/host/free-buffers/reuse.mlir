// RUN: cuesta-opt %s --split-input-file -p free-buffers

// A buffer whose last use is over takes in the next of its size: %a and %c are one, so are %b and %d, and %e is the same
// memory by another name. Near misses: other strides, or another type of elements.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[3 - %i] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%i] : f32
}
kernel.func @widen(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f64>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[3 - %i] : f32
  %b = elem.convert %a : f32 to f64
  kernel.store %b, %o[%i] : f64
}
// CHECK:      host.func @main
// CHECK-NEXT:   %a = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%x, %a)
// CHECK-NEXT:   host.free %x
// CHECK-NEXT:   %b = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%a, %b)
// CHECK-NEXT:   host.launch @copy(%b, %a)
// CHECK-NEXT:   host.launch @copy(%a, %b)
// CHECK-NEXT:   %e = host.reinterpret %a offset 0 : tensor<4xf32> to tensor<2x2xf32>
// CHECK-NEXT:   host.free %a
// CHECK-NEXT:   host.launch @copy(%b, %e)
// CHECK-NEXT:   %h = host.alloc : tensor<2x2xf32, #aten.layout<strides = [1, 2]>>
// CHECK-NEXT:   host.launch @copy(%b, %h)
// CHECK-NEXT:   %f = host.alloc : tensor<4xf64>
// CHECK-NEXT:   host.launch @widen(%b, %f)
// CHECK-NEXT:   host.free %b
// CHECK-NEXT:   host.return %f, %e, %h
// CHECK-NEXT: }
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf64>, tensor<2x2xf32>, tensor<2x2xf32, #aten.layout<strides = [1, 2]>>) {
  %a = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %a) : tensor<4xf32>, tensor<4xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @copy(%a, %b) : tensor<4xf32>, tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @copy(%b, %c) : tensor<4xf32>, tensor<4xf32>
  %d = host.alloc : tensor<4xf32>
  host.launch @copy(%c, %d) : tensor<4xf32>, tensor<4xf32>
  %e = host.alloc : tensor<2x2xf32>
  host.launch @copy(%d, %e) : tensor<4xf32>, tensor<2x2xf32>
  %h = host.alloc : tensor<2x2xf32, #aten.layout<strides = [1, 2]>>
  host.launch @copy(%d, %h) : tensor<4xf32>, tensor<2x2xf32, #aten.layout<strides = [1, 2]>>
  %f = host.alloc : tensor<4xf64>
  host.launch @widen(%d, %f) : tensor<4xf32>, tensor<4xf64>
  host.return %f, %e, %h : tensor<4xf64>, tensor<2x2xf32>, tensor<2x2xf32, #aten.layout<strides = [1, 2]>>
}

// -----

// Near misses: the memory of what is returned (itself, or by another name), of an input, and of what a call gave, which may
// be memory that somebody else has.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[3 - %i] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %a = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%x, %a)
// CHECK-NEXT:   host.free %x
// CHECK-NEXT:   %b = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%a, %b)
// CHECK-NEXT:   %v = host.reinterpret %b offset 0 : tensor<4xf32> to tensor<2x2xf32>
// CHECK-NEXT:   host.free %b
// CHECK-NEXT:   %w = host.reinterpret %v offset 0 : tensor<2x2xf32> to tensor<4xf32>
// CHECK-NEXT:   %m = host.extern pure "aten.cumsum.default"(%w, 0)
// CHECK-NEXT:   host.free %w
// CHECK-NEXT:   %c = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%m, %c)
// CHECK-NEXT:   host.free %m
// CHECK-NEXT:   %d = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%c, %d)
// CHECK-NEXT:   host.free %c
// CHECK-NEXT:   host.return %a, %v, %d
// CHECK-NEXT: }
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>) {
  %a = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %a) : tensor<4xf32>, tensor<4xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @copy(%a, %b) : tensor<4xf32>, tensor<4xf32>
  %v = host.reinterpret %b offset 0 : tensor<4xf32> to tensor<2x2xf32>
  %w = host.reinterpret %v offset 0 : tensor<2x2xf32> to tensor<4xf32>
  %m = host.extern pure "aten.cumsum.default"(%w, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @copy(%m, %c) : tensor<4xf32>, tensor<4xf32>
  %d = host.alloc : tensor<4xf32>
  host.launch @copy(%c, %d) : tensor<4xf32>, tensor<4xf32>
  host.return %a, %v, %d : tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>
}

// -----

// A buffer lives as long as any name of it: %v is read after %c was asked for. As only launches use %v, which need no more
// than its address, %a keeps its name for it.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[3 - %i] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %a = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%x, %a)
// CHECK-NEXT:   host.free %x
// CHECK-NEXT:   %v = host.reinterpret %a offset 0 : tensor<4xf32> to tensor<2x2xf32>
// CHECK-NEXT:   %b = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%a, %b)
// CHECK-NEXT:   %c = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%v, %c)
// CHECK-NEXT:   host.free %a, %v
// CHECK-NEXT:   host.return %b, %c
// CHECK-NEXT: }
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %a) : tensor<4xf32>, tensor<4xf32>
  %v = host.reinterpret %a offset 0 : tensor<4xf32> to tensor<2x2xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @copy(%a, %b) : tensor<4xf32>, tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @copy(%v, %c) : tensor<2x2xf32>, tensor<4xf32>
  host.return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

// A view that a call made (aten.view.dtype) keeps its operand's memory; that of another call's result does not.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[3 - %i] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %a = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%x, %a)
// CHECK-NEXT:   %v = host.extern pure "aten.view.dtype"(%a, torch.int32)
// CHECK-NEXT:   host.free %a
// CHECK-NEXT:   %b = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%x, %b)
// CHECK-NEXT:   host.free %x
// CHECK-NEXT:   %m = host.extern pure "aten.cumsum.default"(%b, 0)
// CHECK-NEXT:   host.launch @copy(%m, %b)
// CHECK-NEXT:   host.free %m
// CHECK-NEXT:   host.return %v, %b
// CHECK-NEXT: }
host.func @main(%x : tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>) {
  %a = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %a) : tensor<4xf32>, tensor<4xf32>
  %v = host.extern pure "aten.view.dtype"(%a, torch.int32) : (tensor<4xf32>) -> tensor<4xi32>
  %b = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %b) : tensor<4xf32>, tensor<4xf32>
  %m = host.extern pure "aten.cumsum.default"(%b, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @copy(%m, %c) : tensor<4xf32>, tensor<4xf32>
  host.return %v, %c : tensor<4xi32>, tensor<4xf32>
}
