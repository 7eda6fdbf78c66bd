// RUN: cuesta-opt %s -p accumulate-in-place --split-input-file

// A product onto a product, and another one onto that.
// CHECK:      %m = host.extern "aten.mm.default"(%a, %b)
// CHECK-NEXT: host.extern "aten.addmm_.default"(%m, %a, %b)
// CHECK-NEXT: host.extern "aten.addmm_.default"(%m, %a, %b, beta = 2)
// CHECK-NEXT: host.return %m
host.func @main(%a : tensor<4x8xf32>, %b : tensor<8x5xf32>) -> (tensor<4x5xf32>) {
  %m = host.extern "aten.mm.default"(%a, %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %n = host.extern "aten.addmm.default"(%m, %a, %b) : (tensor<4x5xf32>, tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %o = host.extern "aten.addmm.default"(%n, %a, %b, beta = 2) : (tensor<4x5xf32>, tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  host.return %o : tensor<4x5xf32>
}

// -----
// Onto an argument; onto a row, which is spread; onto what is used again, or a factor as well, or returned.
// CHECK-NOT: addmm_
// CHECK:     host.return %n, %p, %s, %t, %u
host.func @main(%a : tensor<4x4xf32>, %x : tensor<4x4xf32>, %r : tensor<1x8xf32>, %w : tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %n = host.extern "aten.addmm.default"(%x, %a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %row = host.extern "aten.mm.default"(%r, %w) : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
  %p = host.extern "aten.addmm.default"(%row, %a, %a) : (tensor<1x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = host.extern "aten.mm.default"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = host.extern "aten.addmm.default"(%q, %q, %a) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = host.extern "aten.mm.default"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = host.extern "aten.addmm.default"(%t, %a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  host.return %n, %p, %s, %t, %u : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----
// What has an alias stays as it is.
// CHECK-NOT: addmm_
// CHECK:     host.return %u, %v
host.func @main(%a : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16xf32>) {
  %t = host.extern "aten.mm.default"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = host.reinterpret %t offset 0 : tensor<4x4xf32> to tensor<16xf32>
  %u = host.extern "aten.addmm.default"(%t, %a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  host.return %u, %v : tensor<4x4xf32>, tensor<16xf32>
}

// -----
// No rows; batched, onto what a kernel has written.
// CHECK: host.extern "aten.addmm_.default"
// CHECK: host.launch @fill(%x, %t)
// CHECK: host.extern "aten.baddbmm_.default"(%t, %x, %x)
// CHECK: host.return %m, %t
kernel.func @fill(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [18]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  kernel.store %a, %o[%p] : f32
}
host.func @main(%a : tensor<0x8xf32>, %b : tensor<8x5xf32>, %x : tensor<2x3x3xf32>) -> (tensor<0x5xf32>, tensor<2x3x3xf32>) {
  %m = host.extern "aten.mm.default"(%a, %b) : (tensor<0x8xf32>, tensor<8x5xf32>) -> tensor<0x5xf32>
  %n = host.extern "aten.addmm.default"(%m, %a, %b) : (tensor<0x5xf32>, tensor<0x8xf32>, tensor<8x5xf32>) -> tensor<0x5xf32>
  %t = host.alloc : tensor<2x3x3xf32>
  host.launch @fill(%x, %t) : tensor<2x3x3xf32>, tensor<2x3x3xf32>
  %u = host.extern "aten.baddbmm.default"(%t, %x, %x) : (tensor<2x3x3xf32>, tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  host.return %n, %u : tensor<0x5xf32>, tensor<2x3x3xf32>
}

// -----
// Factors of 16 bits, a sum of f32: what is written to is said besides. Onto an argument: as it is.
// CHECK:      %m = host.extern "aten.mm.dtype"(%a, %b, torch.float32)
// CHECK-NEXT: host.extern "aten.addmm.dtype_out"(%m, %a, %b, torch.float32, out = %m)
// CHECK-NEXT: host.extern "aten.addmm.dtype_out"(%m, %a, %b, torch.float32, beta = 2, out = %m)
// CHECK-NEXT: %p = host.extern "aten.addmm.dtype"(%x, %a, %b, torch.float32)
// CHECK-NEXT: host.return %m, %p
host.func @main(%a : tensor<4x8xbf16>, %b : tensor<8x5xbf16>, %x : tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %m = host.extern "aten.mm.dtype"(%a, %b, torch.float32) : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
  %n = host.extern "aten.addmm.dtype"(%m, %a, %b, torch.float32) : (tensor<4x5xf32>, tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
  %o = host.extern "aten.addmm.dtype"(%n, %a, %b, torch.float32, beta = 2) : (tensor<4x5xf32>, tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
  %p = host.extern "aten.addmm.dtype"(%x, %a, %b, torch.float32) : (tensor<4x5xf32>, tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
  host.return %o, %p : tensor<4x5xf32>, tensor<4x5xf32>
}
