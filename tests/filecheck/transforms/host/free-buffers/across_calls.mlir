// RUN: cuesta-opt %s --split-input-file -p free-buffers

// On a processor, nobody keeps a buffer while a library is called, for one that comes later: %a is free memory by then. What
// the call reads is there meanwhile, and is taken after it (%b is %n); in the same run of launches %c is %n again.
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[3 - %i] : f32
  kernel.store %a, %o[%i] : f32
}
// CHECK:      host.func @main
// CHECK-NEXT:   %a = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%x, %a)
// CHECK-NEXT:   %n = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%a, %n)
// CHECK-NEXT:   host.free %a
// CHECK-NEXT:   %m, %k = host.extern pure "aten.sort.stable"(%n, stable = true)
// CHECK-NEXT:   host.launch @copy(%x, %n)
// CHECK-NEXT:   host.free %x
// CHECK-NEXT:   %d = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @copy(%n, %d)
// CHECK-NEXT:   host.launch @copy(%d, %n)
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi64>) {
  %a = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %a) : tensor<4xf32>, tensor<4xf32>
  %n = host.alloc : tensor<4xf32>
  host.launch @copy(%a, %n) : tensor<4xf32>, tensor<4xf32>
  %m, %k = host.extern pure "aten.sort.stable"(%n, stable = true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  %b = host.alloc : tensor<4xf32>
  host.launch @copy(%x, %b) : tensor<4xf32>, tensor<4xf32>
  %d = host.alloc : tensor<4xf32>
  host.launch @copy(%b, %d) : tensor<4xf32>, tensor<4xf32>
  %c = host.alloc : tensor<4xf32>
  host.launch @copy(%d, %c) : tensor<4xf32>, tensor<4xf32>
  host.return %m, %c, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xi64>
}
