// RUN: cuesta-opt %s --split-input-file -p turn-scans | filecheck %s
// RUN: cuesta-opt %s --split-input-file -p "turn-scans,turn-scans" | filecheck %s
// ROUNDTRIP
// Sums from the end of every row: the loads go forwards, and the sums back. Twice is as good as once.

// CHECK-LABEL: kernel.func @sums
// CHECK: kernel.scan (%[[K:.*]] = 0 to 8 lanes 8 dim 1) {
// CHECK-NEXT: %[[V:.*]] = kernel.load %x[%[[I:.*]] * 8 + %[[K]]] : vector<4x8xf32>
// CHECK-NEXT: %[[S:.*]] = kernel.running sum backwards %[[V]] : vector<4x8xf32>
// CHECK-NEXT: kernel.store %[[S]], %{{.*}}[%[[I]] * 8 + %[[K]]] : vector<4x8xf32>
kernel.func @sums(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [2], target = cuda, warps = 1> {
  %p = kernel.program_id 0
  kernel.for (%i = %p * 4 to %p * 4 + 4 lanes 4) {
    kernel.scan (%k = 0 to 8 lanes 8 dim 1) {
      %v = kernel.load %x[%i * 8 - %k + 7] : vector<4x8xf32>
      %s = kernel.running sum %v : vector<4x8xf32>
      kernel.store %s, %o[%i * 8 - %k + 7] : vector<4x8xf32>
    }
  }
}
func.func @main(%x : tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = kernel.launch @sums(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %y : tensor<8x8xf32>
}

// -----

// Of fewer points than lanes, beginning at 1, by a product of what the place of a point says; a load that all share.

// CHECK-LABEL: kernel.func @products
// CHECK: kernel.scan (%[[K:.*]] = 1 to 6 lanes 8) {
// CHECK: kernel.load %x[%[[K]] - 1] : vector<8xf32>
// CHECK: kernel.load %w[0] : f32
// CHECK: kernel.index [-%[[K]] + 6] : vector<8xi32>
// CHECK: kernel.running prod backwards
// CHECK: kernel.running logaddexp backwards
// CHECK: kernel.store %{{.*}}, %o[%[[K]]] :
// CHECK: kernel.store %{{.*}}, %l[%[[K]] - 1] :
kernel.func @products(%x : !kernel.ptr<f32>, %w : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>, %l : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1> {
  %first = elem.constant 0.0 : f32
  kernel.store %first, %o[0] : f32
  kernel.scan (%k = 1 to 6 lanes 8) {
    %v = kernel.load %x[5 - %k] : vector<8xf32>
    %w0 = kernel.load %w[0] : f32
    %place = kernel.index [%k] : vector<8xi32>
    %number = elem.convert %place : vector<8xi32> to vector<8xf32>
    %all = kernel.broadcast %w0 : f32 to vector<8xf32>
    %scaled = elem.mul %v, %all : vector<8xf32>
    %u = elem.add %scaled, %number : vector<8xf32>
    %s = kernel.running prod %u : vector<8xf32>
    %t = kernel.running logaddexp %u : vector<8xf32>
    kernel.store %s, %o[6 - %k] : vector<8xf32>
    kernel.store %t, %l[5 - %k] : vector<8xf32>
  }
}
func.func @main(%x : tensor<5xf32>, %w : tensor<1xf32>) -> (tensor<6xf32>, tensor<5xf32>) {
  %y, %z = kernel.launch @products(%x, %w) : (tensor<5xf32>, tensor<1xf32>) -> (tensor<6xf32>, tensor<5xf32>)
  func.return %y, %z : tensor<6xf32>, tensor<5xf32>
}
