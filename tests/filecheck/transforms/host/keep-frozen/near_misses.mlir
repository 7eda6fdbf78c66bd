// RUN: cuesta-opt %s --split-input-file -p keep-frozen

// Nothing is frozen.
kernel.func @double(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [64]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 128 lanes 16) {
    %a = kernel.load %x[%p * 128 + %j] : vector<16xf32>
    %b = elem.add %a, %a : vector<16xf32>
    kernel.store %b, %o[%p * 128 + %j] : vector<16xf32>
  }
}
kernel.func @add(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [64]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 128 lanes 16) {
    %a = kernel.load %x[%p * 128 + %j] : vector<16xf32>
    %b = kernel.load %y[%p * 128 + %j] : vector<16xf32>
    %c = elem.add %a, %b : vector<16xf32>
    kernel.store %c, %o[%p * 128 + %j] : vector<16xf32>
  }
}
// CHECK-NOT: kept
host.func @main(%x : tensor<64x128xf32>, %w : tensor<64x128xf32>) -> (tensor<64x128xf32>) {
  %a = host.alloc : tensor<64x128xf32>
  host.launch @double(%w, %a) : tensor<64x128xf32>, tensor<64x128xf32>
  %b = host.alloc : tensor<64x128xf32>
  host.launch @add(%a, %x, %b) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  host.return %b : tensor<64x128xf32>
}

// -----

// What another input is part of; what is returned, or an alias of it is; what is computed of that; what is written to
// once more; what a call may give back; an argument itself.
kernel.func @double(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [64]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 128 lanes 16) {
    %a = kernel.load %x[%p * 128 + %j] : vector<16xf32>
    %b = elem.add %a, %a : vector<16xf32>
    kernel.store %b, %o[%p * 128 + %j] : vector<16xf32>
  }
}
kernel.func @add(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [64]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 128 lanes 16) {
    %a = kernel.load %x[%p * 128 + %j] : vector<16xf32>
    %b = kernel.load %y[%p * 128 + %j] : vector<16xf32>
    %c = elem.add %a, %b : vector<16xf32>
    kernel.store %c, %o[%p * 128 + %j] : vector<16xf32>
  }
}
// CHECK-NOT: kept
host.func @main(%x : tensor<64x128xf32>, %w : tensor<64x128xf32>, %p : tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<8192xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<8192xf32>) attributes {aten.frozen = [1 : i64], aten.writes_to = [2 : i64]} {
  %a = host.alloc : tensor<64x128xf32>
  host.launch @add(%w, %x, %a) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  %b = host.alloc : tensor<64x128xf32>
  host.launch @double(%w, %b) : tensor<64x128xf32>, tensor<64x128xf32>
  %c = host.alloc : tensor<64x128xf32>
  host.launch @double(%w, %c) : tensor<64x128xf32>, tensor<64x128xf32>
  %v = host.reinterpret %c offset 0 : tensor<64x128xf32> to tensor<8192xf32>
  %d = host.alloc : tensor<64x128xf32>
  host.launch @double(%b, %d) : tensor<64x128xf32>, tensor<64x128xf32>
  %e = host.alloc : tensor<64x128xf32>
  host.launch @double(%w, %e) : tensor<64x128xf32>, tensor<64x128xf32>
  host.launch @add(%w, %x, %e) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  %f = host.alloc : tensor<64x128xf32>
  host.launch @add(%e, %d, %f) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  %g = host.alloc : tensor<64x128xf32>
  host.launch @double(%w, %g) : tensor<64x128xf32>, tensor<64x128xf32>
  %h = host.extern "aten.reshape.default"(%g, [8192]) : (tensor<64x128xf32>) -> tensor<8192xf32>
  host.launch @double(%w, %p) : tensor<64x128xf32>, tensor<64x128xf32>
  host.return %a, %b, %v, %d, %f, %h : tensor<64x128xf32>, tensor<64x128xf32>, tensor<8192xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<8192xf32>
}

// -----

// An argument that the program writes to, and one that is taken from where its storage begins.
kernel.func @double(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [64]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 128 lanes 16) {
    %a = kernel.load %x[%p * 128 + %j] : vector<16xf32>
    %b = elem.add %a, %a : vector<16xf32>
    kernel.store %b, %o[%p * 128 + %j] : vector<16xf32>
  }
}
kernel.func @add(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [64]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 128 lanes 16) {
    %a = kernel.load %x[%p * 128 + %j] : vector<16xf32>
    %b = kernel.load %y[%p * 128 + %j] : vector<16xf32>
    %c = elem.add %a, %b : vector<16xf32>
    kernel.store %c, %o[%p * 128 + %j] : vector<16xf32>
  }
}
// CHECK-NOT: kept
host.func @main(%x : tensor<64x128xf32>, %w : tensor<64x128xf32>, %s : tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>) attributes {aten.by_storage = [2 : i64], aten.frozen = [1 : i64, 2 : i64], aten.writes_to = [1 : i64]} {
  %a = host.alloc : tensor<64x128xf32>
  host.launch @double(%w, %a) : tensor<64x128xf32>, tensor<64x128xf32>
  %b = host.alloc : tensor<64x128xf32>
  host.launch @add(%a, %x, %b) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  %c = host.alloc : tensor<64x128xf32>
  host.launch @double(%s, %c) : tensor<64x128xf32>, tensor<64x128xf32>
  %d = host.alloc : tensor<64x128xf32>
  host.launch @add(%c, %x, %d) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  host.launch @double(%x, %w) : tensor<64x128xf32>, tensor<64x128xf32>
  host.return %b, %d : tensor<64x128xf32>, tensor<64x128xf32>
}

// -----

// A size that the call knows; a kernel that may raise; what is small; a GPU.
kernel.func @some(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [s0]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[0] : f32
  kernel.store %a, %o[%p] : f32
}
kernel.func @rows(%i : !kernel.ptr<i64>, %x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [8192]> {
  %p = kernel.program_id 0
  %i0 = kernel.load %i[%p] : i64
  %b = kernel.bound %i0, 64 : i64
  %a = kernel.load %x[%b * 128] : f32
  kernel.store %a, %o[%p] : f32
}
kernel.func @small(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [128]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  kernel.store %a, %o[%p] : f32
}
// CHECK-NOT: kept
host.func @main(%n : !sym.int<s0>, %w : tensor<64x128xf32>, %i : tensor<8192xi64>, %g : tensor<64x128xf32, #aten.layout<device = "cuda:0">>) -> () attributes {aten.frozen = [1 : i64, 2 : i64, 3 : i64], sym.symbols = #sym.symbols<s0 in [2, 640]>} {
  %a = host.alloc : tensor<?xf32, #aten.layout<sizes = [s0]>>
  host.launch @some(%w, %a) : tensor<64x128xf32>, tensor<?xf32, #aten.layout<sizes = [s0]>>
  %b = host.alloc : tensor<8192xf32>
  host.launch @rows(%i, %w, %b) : tensor<8192xi64>, tensor<64x128xf32>, tensor<8192xf32>
  %c = host.alloc : tensor<128xf32>
  host.launch @small(%w, %c) : tensor<64x128xf32>, tensor<128xf32>
  %d = host.alloc : tensor<64x128xf32, #aten.layout<device = "cuda:0">>
  host.launch @small(%g, %d) : tensor<64x128xf32, #aten.layout<device = "cuda:0">>, tensor<64x128xf32, #aten.layout<device = "cuda:0">>
  host.return
}
