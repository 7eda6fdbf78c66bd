// RUN: cuesta-opt %s --split-input-file -p keep-frozen

// What is computed of %w alone goes before all else, with the alias and the buffer that it needs: at once, and of what
// that gave. The rest is as it was. (What a call is given, or an alias of it, may be kept.)
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
// CHECK:      host.func @main
// CHECK-NEXT:   [[V:%.+]] = host.reinterpret %w offset 0
// CHECK-NEXT:   [[A:%.+]] = host.alloc
// CHECK-NEXT:   host.launch kept @double([[V]], [[A]]) : tensor<8192xf32>, tensor<64x128xf32>
// CHECK-NEXT:   [[B:%.+]] = host.alloc
// CHECK-NEXT:   host.launch kept @add([[A]], %u, [[B]]) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
// CHECK-NEXT:   [[X:%.+]] = host.alloc
// CHECK-NEXT:   host.launch @double(%x, [[X]]) : tensor<64x128xf32>, tensor<64x128xf32>
// CHECK-NEXT:   [[T:%.+]] = host.reinterpret [[B]] offset 0
// CHECK-NEXT:   [[M:%.+]] = host.extern "aten.mm.default"([[X]], [[T]])
// CHECK-NEXT:   [[Y:%.+]] = host.alloc
// CHECK-NEXT:   host.launch @add([[X]], [[A]], [[Y]])
// CHECK-NEXT:   host.return [[M]], [[Y]]
host.func @main(%x : tensor<64x128xf32>, %w : tensor<64x128xf32>, %u : tensor<64x128xf32>) -> (tensor<64x64xf32>, tensor<64x128xf32>) attributes {aten.frozen = [1 : i64, 2 : i64]} {
  %a = host.alloc : tensor<64x128xf32>
  host.launch @double(%x, %a) : tensor<64x128xf32>, tensor<64x128xf32>
  %v = host.reinterpret %w offset 0 : tensor<64x128xf32> to tensor<8192xf32>
  %b = host.alloc : tensor<64x128xf32>
  host.launch @double(%v, %b) : tensor<8192xf32>, tensor<64x128xf32>
  %c = host.alloc : tensor<64x128xf32>
  host.launch @add(%b, %u, %c) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  %t = host.reinterpret %c offset 0 : tensor<64x128xf32> to tensor<128x64xf32, #aten.layout<strides = [1, 128]>>
  %m = host.extern "aten.mm.default"(%a, %t) : (tensor<64x128xf32>, tensor<128x64xf32, #aten.layout<strides = [1, 128]>>) -> tensor<64x64xf32>
  %d = host.alloc : tensor<64x128xf32>
  host.launch @add(%a, %b, %d) : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  host.return %m, %d : tensor<64x64xf32>, tensor<64x128xf32>
}

// -----

// What is small is kept where something else is computed of it.
kernel.func @small(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [128]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
}
kernel.func @rows(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [64]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 128 lanes 16) {
    %a = kernel.load %x[%j] : vector<16xf32>
    kernel.store %a, %o[%p * 128 + %j] : vector<16xf32>
  }
}
// CHECK:      host.launch kept @small(%w, %a)
// CHECK:      host.launch kept @rows(%a, %b)
// CHECK-NOT:  kept
// CHECK:      host.launch @small(%w, %c)
// CHECK-NOT:  kept
host.func @main(%x : tensor<64x128xf32>, %w : tensor<128xf32>) -> (tensor<64x64xf32>, tensor<128xf32>) attributes {aten.frozen = [1 : i64]} {
  %a = host.alloc : tensor<128xf32>
  host.launch @small(%w, %a) : tensor<128xf32>, tensor<128xf32>
  %b = host.alloc : tensor<128x64xf32>
  host.launch @rows(%a, %b) : tensor<128xf32>, tensor<128x64xf32>
  %m = host.extern "aten.mm.default"(%x, %b) : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>
  %c = host.alloc : tensor<128xf32>
  host.launch @small(%w, %c) : tensor<128xf32>, tensor<128xf32>
  %d = host.alloc : tensor<128xf32>
  host.launch @small(%c, %d) : tensor<128xf32>, tensor<128xf32>
  host.return %m, %d : tensor<64x64xf32>, tensor<128xf32>
}
