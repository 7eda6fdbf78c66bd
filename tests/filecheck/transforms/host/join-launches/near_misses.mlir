// RUN: cuesta-opt %s --split-input-file -p join-launches

// Each needs what the one before it gives.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
// CHECK:      host.func @main
// CHECK-NEXT:   host.launch @negate(%a, %a)
// CHECK-NEXT:   host.launch @negate(%a, %a)
// CHECK-NEXT:   host.launch @negate(%a, %a)
// CHECK-NEXT:   host.launch @negate(%a, %a)
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0]} {
  host.launch @negate(%a, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%a, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%a, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%a, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// The last writes what the first reads: three are not enough.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
// CHECK:      host.func @main
// CHECK-NEXT:   host.launch @negate(%b, %a)
// CHECK-NEXT:   host.launch @negate(%c, %c)
// CHECK-NEXT:   host.launch @negate(%d, %d)
// CHECK-NEXT:   host.launch @negate(%b, %b)
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1xf32, #aten.layout<device = "cuda:0">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  host.launch @negate(%b, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%c, %c) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%d, %d) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%b, %b) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// The last writes what the first reads by another name.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1xf32, #aten.layout<device = "cuda:0">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  %v = host.reinterpret %b offset 0 : tensor<1xf32, #aten.layout<device = "cuda:0">> to tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%v, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%c, %c) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%d, %d) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%b, %b) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// Two kernels of other bodies, two launches each.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
kernel.func @magnitude(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.abs %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1xf32, #aten.layout<device = "cuda:0">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  host.launch @negate(%a, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @magnitude(%b, %b) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%c, %c) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @magnitude(%d, %d) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// A call stands between them, and what it does is its own affair.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1xf32, #aten.layout<device = "cuda:0">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  host.launch @negate(%a, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%b, %b) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  %m = host.extern "aten.cumsum.default"(%a, 0) : (tensor<1xf32, #aten.layout<device = "cuda:0">>) -> tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%c, %c) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%d, %d) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// On the CPU a launch is a call of a function.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%a : tensor<1xf32>, %b : tensor<1xf32>, %c : tensor<1xf32>, %d : tensor<1xf32>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  host.launch @negate(%a, %a) : tensor<1xf32>, tensor<1xf32>
  host.launch @negate(%b, %b) : tensor<1xf32>, tensor<1xf32>
  host.launch @negate(%c, %c) : tensor<1xf32>, tensor<1xf32>
  host.launch @negate(%d, %d) : tensor<1xf32>, tensor<1xf32>
  host.return
}

// -----

// An index that is out of range is said of one launch.
kernel.func @gather(%n : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %i = kernel.load %n[%p] : i64
  %j = kernel.bound %i, 4 : i64
  %a = elem.constant 1.0 : f32
  kernel.store %a, %o[%j - %j + %p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%n : tensor<1xi64, #aten.layout<device = "cuda:0">>, %a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1xf32, #aten.layout<device = "cuda:0">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [1, 2, 3, 4]} {
  host.launch @gather(%n, %a) : tensor<1xi64, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @gather(%n, %b) : tensor<1xi64, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @gather(%n, %c) : tensor<1xi64, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @gather(%n, %d) : tensor<1xi64, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// Large ones keep a GPU busy for longer than the host.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3145728], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%a : tensor<3145728xf32, #aten.layout<device = "cuda:0">>, %b : tensor<3145728xf32, #aten.layout<device = "cuda:0">>, %c : tensor<3145728xf32, #aten.layout<device = "cuda:0">>, %d : tensor<3145728xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  host.launch @negate(%a, %a) : tensor<3145728xf32, #aten.layout<device = "cuda:0">>, tensor<3145728xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%b, %b) : tensor<3145728xf32, #aten.layout<device = "cuda:0">>, tensor<3145728xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%c, %c) : tensor<3145728xf32, #aten.layout<device = "cuda:0">>, tensor<3145728xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%d, %d) : tensor<3145728xf32, #aten.layout<device = "cuda:0">>, tensor<3145728xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// What a call gives may be memory of an argument, which the last changes.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1xf32, #aten.layout<device = "cuda:0">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  %v = host.extern pure "aten.view.default"(%b, [1]) : (tensor<1xf32, #aten.layout<device = "cuda:0">>) -> tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%v, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%c, %c) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%d, %d) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%b, %b) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.return
}

// -----

// Two devices.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [1], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK-NOT:  kernel.pick
host.func @main(%a : tensor<1xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1xf32, #aten.layout<device = "cuda:1">>, %c : tensor<1xf32, #aten.layout<device = "cuda:0">>, %d : tensor<1xf32, #aten.layout<device = "cuda:1">>) -> () attributes {aten.writes_to = [0, 1, 2, 3]} {
  host.launch @negate(%a, %a) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%b, %b) : tensor<1xf32, #aten.layout<device = "cuda:1">>, tensor<1xf32, #aten.layout<device = "cuda:1">>
  host.launch @negate(%c, %c) : tensor<1xf32, #aten.layout<device = "cuda:0">>, tensor<1xf32, #aten.layout<device = "cuda:0">>
  host.launch @negate(%d, %d) : tensor<1xf32, #aten.layout<device = "cuda:1">>, tensor<1xf32, #aten.layout<device = "cuda:1">>
  host.return
}
