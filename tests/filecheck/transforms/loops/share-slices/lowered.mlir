// RUN: cuesta-opt %s -p share-slices,loops-to-kernel,kernel-to-host

// One kernel with another pointer.
// CHECK:     kernel.func @{{mul_[0-9]+}}
// CHECK-NOT: kernel.func
// CHECK:     %[[P:.*]] = host.reinterpret %x offset 0 : tensor<16x8xf32> to tensor<8x8xf32>
// CHECK:     host.launch @mul_0(%[[P]], %w, %a)
// CHECK:     %[[Q:.*]] = host.reinterpret %x offset 64 : tensor<16x8xf32> to tensor<8x8xf32>
// CHECK:     host.launch @mul_0(%[[Q]], %w, %b)
func.func @main(%x : tensor<16x8xf32>, %w : tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %a = loops.nest (%i : 8, %j : 8) outs(%o : tensor<8x8xf32>) {
    %u = loops.load %x[%i, %j] : tensor<16x8xf32>
    %v = loops.load %w[%j] : tensor<8xf32>
    %y = elem.mul %u, %v : f32
    loops.store %y, %o[%i, %j] : tensor<8x8xf32>
  }
  %b = loops.nest (%i : 8, %j : 8) outs(%o : tensor<8x8xf32>) {
    %u = loops.load %x[%i + 8, %j] : tensor<16x8xf32>
    %v = loops.load %w[%j] : tensor<8xf32>
    %y = elem.mul %u, %v : f32
    loops.store %y, %o[%i, %j] : tensor<8x8xf32>
  }
  func.return %a, %b : tensor<8x8xf32>, tensor<8x8xf32>
}
