// RUN: cuesta-opt %s --split-input-file -p free-buffers,pool-buffers

// What is kept for later calls takes nobody's place, nobody takes its place, and it is neither freed nor pooled.
kernel.func @double(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [8192]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.add %a, %a : f32
  kernel.store %b, %o[%p] : f32
}
// CHECK:      host.func @main
// CHECK:        %a = host.alloc : tensor<8192xf32>
// CHECK-NEXT:   host.launch @double(%x, %a)
// CHECK-NEXT:   host.free %x
// CHECK-NEXT:   host.launch @double(%a, %a)
// CHECK:        %k = host.alloc : tensor<8192xf32>
// CHECK-NEXT:   host.launch kept @double(%w, %k)
// CHECK-NEXT:   host.free %w
// CHECK-NEXT:   [[C:%.+]] = host.alloc : tensor<8192xf32>
// CHECK-NEXT:   host.launch @double(%k, [[C]])
// CHECK-NOT:    host.free
// CHECK:        host.return %a, [[C]]
host.func @main(%x : tensor<8192xf32>, %w : tensor<8192xf32>) -> (tensor<8192xf32>, tensor<8192xf32>) attributes {aten.frozen = [1 : i64]} {
  %a = host.alloc : tensor<8192xf32>
  host.launch @double(%x, %a) : tensor<8192xf32>, tensor<8192xf32>
  %b = host.alloc : tensor<8192xf32>
  host.launch @double(%a, %b) : tensor<8192xf32>, tensor<8192xf32>
  %k = host.alloc : tensor<8192xf32>
  host.launch kept @double(%w, %k) : tensor<8192xf32>, tensor<8192xf32>
  %c = host.alloc : tensor<8192xf32>
  host.launch @double(%k, %c) : tensor<8192xf32>, tensor<8192xf32>
  host.return %b, %c : tensor<8192xf32>, tensor<8192xf32>
}
