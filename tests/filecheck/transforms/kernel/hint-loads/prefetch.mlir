// RUN: cuesta-opt %s -p "hint-loads" --split-input-file
// ROUNDTRIP

// What one row reads, not what all of them share.
// CHECK:      kernel.load %x[%k] : vector<1x8xf32>{{$}}
// CHECK:      kernel.load %w[%i * 32 + %k] : vector<4x8xf32> prefetch 96{{$}}
kernel.func @sum_0(%x: !kernel.ptr<f32>, %w: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2], parallel = 0, prefetch = 96, unroll = 1> {
  %p = kernel.program_id 0
  kernel.for (%i = %p * 8 to %p * 8 + 8 lanes 4) {
    %s = kernel.reduce sum (%k = 0 to 32 lanes 8 dim 1) {
      %a = kernel.load %x[%k] : vector<1x8xf32>
      %b = kernel.load %w[%i * 32 + %k] : vector<4x8xf32>
      %c = kernel.broadcast %a : vector<1x8xf32> to vector<4x8xf32>
      %d = elem.mul %c, %b : vector<4x8xf32>
      kernel.yield %d : vector<4x8xf32>
    } : vector<4xf32>
    kernel.store %s, %o[%i] : vector<4xf32>
  }
}
func.func @main(%x: tensor<32xf32>, %w: tensor<16x32xf32>) -> tensor<16xf32> {
  %y = kernel.launch @sum_0(%x, %w) : (tensor<32xf32>, tensor<16x32xf32>) -> (tensor<16xf32>)
  func.return %y : tensor<16xf32>
}

// -----
// Columns that are walked down; not what is the same for all of them, nor what does not move on.
// CHECK:      kernel.load %b[%i] : vector<8xf32>{{$}}
// CHECK:      kernel.load %e[%k] : f32{{$}}
// CHECK:      kernel.load %v[%i + %k * 16] : vector<8xf32> prefetch 96{{$}}
// CHECK:      kernel.load %b[%i] : vector<8xf32>{{$}}
kernel.func @sum_0(%e: !kernel.ptr<f32>, %v: !kernel.ptr<f32>, %b: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [], parallel = 0, prefetch = 96, unroll = 1> {
  kernel.for (%i = 0 to 16 lanes 8) {
    %f = kernel.load %b[%i] : vector<8xf32>
    %s = kernel.reduce sum (%k = 0 to 32) {
      %a = kernel.load %e[%k] : f32
      %c = kernel.load %v[%i + %k * 16] : vector<8xf32>
      %g = kernel.load %b[%i] : vector<8xf32>
      %d = kernel.broadcast %a : f32 to vector<8xf32>
      %h = elem.mul %d, %c : vector<8xf32>
      %j = elem.mul %h, %g : vector<8xf32>
      kernel.yield %j : vector<8xf32>
    } : vector<8xf32>
    %t = elem.add %s, %f : vector<8xf32>
    kernel.store %t, %o[%i] : vector<8xf32>
  }
}
func.func @main(%e: tensor<32xf32>, %v: tensor<32x16xf32>, %b: tensor<16xf32>) -> tensor<16xf32> {
  %y = kernel.launch @sum_0(%e, %v, %b) : (tensor<32xf32>, tensor<32x16xf32>, tensor<16xf32>) -> (tensor<16xf32>)
  func.return %y : tensor<16xf32>
}

// -----
// Near miss: the schedule says nothing of it; what the text says already stays.
// CHECK:      kernel.load %x[%j] : vector<8xf32> evict_first prefetch 7{{$}}
// CHECK-NOT:  prefetch
kernel.func @copy_0(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4], parallel = 0, unroll = 1> {
  %p = kernel.program_id 0
  kernel.for (%j = %p * 32 to %p * 32 + 32 lanes 8) {
    %a = kernel.load %x[%j] : vector<8xf32> evict_first prefetch 7
    %b = kernel.load %x[%j] : vector<8xf32>
    %c = elem.add %a, %b : vector<8xf32>
    kernel.store %c, %o[%j] : vector<8xf32>
  }
}
func.func @main(%x: tensor<128xf32>) -> tensor<128xf32> {
  %y = kernel.launch @copy_0(%x) : (tensor<128xf32>) -> (tensor<128xf32>)
  func.return %y : tensor<128xf32>
}
