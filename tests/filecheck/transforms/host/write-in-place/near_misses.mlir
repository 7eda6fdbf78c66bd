// RUN: cuesta-opt %s --split-input-file -p write-in-place

// The kernel reads other elements than it writes.
kernel.func @reverse(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[3 - %p] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        host.launch @reverse(%x, %o)
// CHECK:        "aten.copy_.default"(%x, %o)
host.func @main(%x : tensor<4xf32>) -> () attributes {aten.writes_to = [0]} {
  %o = host.alloc : tensor<4xf32>
  host.launch @reverse(%x, %o) : tensor<4xf32>, tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return
}

// -----

// The old elements are read later, by another name, and what makes the new ones is read before that; the caller gets the
// result as a tensor of its own.
kernel.func @reverse(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[3 - %p] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        host.launch @reverse(%y, %o)
// CHECK:        host.launch @reverse(%o, %b)
// CHECK:        host.launch @reverse(%v, %c)
// CHECK:        "aten.copy_.default"(%x, %o)
// CHECK:        "aten.copy_.default"(%y, %c)
host.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) attributes {aten.writes_to = [0, 1]} {
  %o = host.alloc : tensor<4xf32>
  host.launch @reverse(%y, %o) : tensor<4xf32>, tensor<4xf32>
  %v = host.reinterpret %x offset 0 : tensor<4xf32> to tensor<2x2xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @reverse(%o, %b) : tensor<4xf32>, tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @reverse(%v, %c) : tensor<2x2xf32>, tensor<4xf32>
  %w = host.reinterpret %c offset 0 : tensor<4xf32> to tensor<2x2xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = host.extern "aten.copy_.default"(%y, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return %b, %w : tensor<4xf32>, tensor<2x2xf32>
}

// -----

// Other strides; a value that no launch makes; what may be a view of the argument.
kernel.func @fill() outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %c = elem.constant 1.0 : f32
  kernel.store %c, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        host.launch @fill(%o)
// CHECK:        host.launch @fill(%q)
// CHECK:        "aten.copy_.default"(%x, %o)
// CHECK:        "aten.copy_.default"(%y, %m)
// CHECK:        "aten.copy_.default"(%z, %q)
host.func @main(%x : tensor<2x2xf32, #aten.layout<strides = [1, 2]>>, %y : tensor<2x2xf32>, %z : tensor<2x2xf32>) -> (tensor<2x2xi32>) attributes {aten.writes_to = [0, 1, 2]} {
  %o = host.alloc : tensor<2x2xf32>
  host.launch @fill(%o) : tensor<2x2xf32>
  %m = host.extern pure "aten.cumsum.default"(%y, 0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %v = host.extern pure "aten.view.dtype"(%z, torch.int32) : (tensor<2x2xf32>) -> tensor<2x2xi32>
  %q = host.alloc : tensor<2x2xf32>
  host.launch @fill(%q) : tensor<2x2xf32>
  %n = host.extern pure "aten.flip.default"(%v, [0]) : (tensor<2x2xi32>) -> tensor<2x2xi32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<2x2xf32, #aten.layout<strides = [1, 2]>>, tensor<2x2xf32>) -> tensor<2x2xf32, #aten.layout<strides = [1, 2]>>
  %s = host.extern "aten.copy_.default"(%y, %m) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = host.extern "aten.copy_.default"(%z, %q) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  host.return %n : tensor<2x2xi32>
}

// -----

// An index that is out of range raises before anything is written: what reads the result finds out.
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
// CHECK:        host.launch @fill(%o)
// CHECK-NEXT:   %b = host.alloc
// CHECK-NEXT:   host.launch @gather(%o, %n, %b)
// CHECK-NEXT:   host.launch @fill(%y)
// CHECK:        "aten.copy_.default"(%x, %o)
// CHECK-NEXT:   host.return %b
host.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>, %n : tensor<4xi64>) -> (tensor<4xf32>) attributes {aten.writes_to = [0, 1]} {
  %o = host.alloc : tensor<4xf32>
  host.launch @fill(%o) : tensor<4xf32>
  %b = host.alloc : tensor<4xf32>
  host.launch @gather(%o, %n, %b) : tensor<4xf32>, tensor<4xi64>, tensor<4xf32>
  %q = host.alloc : tensor<4xf32>
  host.launch @fill(%q) : tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = host.extern "aten.copy_.default"(%y, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return %b : tensor<4xf32>
}

// -----

// A copy that negates is none; and on the CPU a kernel that may raise an IndexError keeps the argument as it is until then.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  kernel.store %a, %o[%p] : f32
}
kernel.func @scatter(%k : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>) updates 1 schedule #kernel.schedule<grid = [1]> {
  %a = elem.constant 1.0 : f32
  kernel.scan (%p = 0 to 2) {
    %n = kernel.load %k[%p] : i64
    %r = kernel.bound %n, 4 : i64
    kernel.combine assign %a, %o[%r] : f32
  }
}
// CHECK:      host.func @main
// CHECK:        host.launch @copy(%x, %o)
// CHECK-NEXT:   host.launch @scatter(%k, %o)
// CHECK-NEXT:   "aten.copy_.default"(%x, %o)
// CHECK-NEXT:   host.launch @negate(%y, %y)
// CHECK-NEXT:   host.return
host.func @main(%x : tensor<4xf32>, %k : tensor<2xi64>, %y : tensor<4xf32>) -> () attributes {aten.writes_to = [0, 2]} {
  %o = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %o) : tensor<4xf32>, tensor<4xf32>
  host.launch @scatter(%k, %o) : tensor<2xi64>, tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = host.alloc : tensor<4xf32>
  host.launch @negate(%y, %q) : tensor<4xf32>, tensor<4xf32>
  %s = host.extern "aten.copy_.default"(%y, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return
}

// -----

// Both read what the other is to write. The second is written in place, and the first cannot come after it.
kernel.func @reverse(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[3 - %p] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        host.launch @reverse(%y, %o)
// CHECK:        host.launch @reverse(%x, %y)
// CHECK:        "aten.copy_.default"(%x, %o)
// CHECK-NEXT:   host.return
host.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>) -> () attributes {aten.writes_to = [0, 1]} {
  %o = host.alloc : tensor<4xf32>
  host.launch @reverse(%y, %o) : tensor<4xf32>, tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @reverse(%x, %c) : tensor<4xf32>, tensor<4xf32>
  %s = host.extern "aten.copy_.default"(%y, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  host.return
}

// -----

// To store one element later, the four that it is made of would live on.
kernel.func @double(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.add %a, %a : f32
  kernel.store %b, %o[%p] : f32
}
kernel.func @first(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        host.launch @double(%y, %t)
// CHECK:        host.launch @first(%t, %o)
// CHECK:        host.launch @first(%x, %b)
// CHECK:        "aten.copy_.default"(%x, %o)
host.func @main(%x : tensor<1xf32>, %y : tensor<4xf32>) -> (tensor<1xf32>) attributes {aten.writes_to = [0]} {
  %t = host.alloc : tensor<4xf32>
  host.launch @double(%y, %t) : tensor<4xf32>, tensor<4xf32>
  %o = host.alloc : tensor<1xf32>
  host.launch @first(%t, %o) : tensor<4xf32>, tensor<1xf32>
  %b = host.alloc : tensor<1xf32>
  host.launch @first(%x, %b) : tensor<1xf32>, tensor<1xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  host.return %b : tensor<1xf32>
}

// -----

// What is copied back has been written to in scratch memory.
kernel.func @scatter(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1]> {
  %m = kernel.local 3 : !kernel.ptr<f32>
  kernel.for (%i = 0 to 3) {
    %a = kernel.load %x[%i] : f32
    kernel.store %a, %m[%i] : f32
  }
  %z = elem.constant 0 : i64
  %n = kernel.bound %z, 3 checked : i64
  %f = elem.constant 4.0 : f32
  kernel.scan (%p = 0 to 1) {
    kernel.combine assign %f, %m[%n] : f32
  }
  kernel.for (%i = 0 to 3) {
    %a = kernel.load %m[%i] : f32
    kernel.store %a, %o[%i] : f32
  }
}
// CHECK:      host.func @main
// CHECK:        host.launch @scatter(%x, %
// CHECK:        host.return
host.func @main(%x : tensor<3xf32>) -> () attributes {aten.writes_to = [0]} {
  %o = host.alloc : tensor<3xf32>
  host.launch @scatter(%x, %o) : tensor<3xf32>, tensor<3xf32>
  %r = host.extern "aten.copy_.default"(%x, %o) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  host.return
}
