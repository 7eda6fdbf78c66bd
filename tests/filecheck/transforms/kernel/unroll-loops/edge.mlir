// RUN: cuesta-opt %s --split-input-file -p unroll-loops | filecheck %s
// Fewer points than are read at a time; one point; what a text says already; a loop that reads what the kernel stores.

// CHECK-LABEL: kernel.func @few
// CHECK: kernel.scan (%{{.*}} = 2 to 5) unroll 3 {
// CHECK: kernel.scan (%{{.*}} = 0 to 1) {
// CHECK: kernel.scan (%{{.*}} = 0 to 9) unroll 4 {
// CHECK: kernel.for (%{{.*}} = 0 to 9) {
kernel.func @few(%x : !kernel.ptr<f32>)
    outs(%o : !kernel.ptr<f32>, %p : !kernel.ptr<f32>, %q : !kernel.ptr<f32>, %r : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  kernel.for (%i = 0 to 64 lanes 64) {
    kernel.scan (%k = 2 to 5) {
      %v = kernel.load %x[%k * 64 + %i] : vector<64xf32>
      %s = kernel.running sum %v : vector<64xf32>
      kernel.store %s, %o[%k * 64 + %i - 128] : vector<64xf32>
    }
    kernel.scan (%k = 0 to 1) {
      %v = kernel.load %x[%k * 64 + %i] : vector<64xf32>
      %s = kernel.running sum %v : vector<64xf32>
      kernel.store %s, %p[%k * 64 + %i] : vector<64xf32>
    }
    kernel.scan (%k = 0 to 9) unroll 4 {
      %v = kernel.load %x[%k * 64 + %i] : vector<64xf32>
      %s = kernel.running sum %v : vector<64xf32>
      kernel.store %s, %q[%k * 64 + %i] : vector<64xf32>
    }
    kernel.for (%k = 0 to 9) {
      %v = kernel.load %q[%k * 64 + %i] : vector<64xf32>
      kernel.store %v, %r[%k * 64 + %i] : vector<64xf32>
    }
  }
}
func.func @main(%x : tensor<9x64xf32>) -> (tensor<3x64xf32>, tensor<1x64xf32>, tensor<9x64xf32>, tensor<9x64xf32>) {
  %a, %b, %c, %d = kernel.launch @few(%x)
      : (tensor<9x64xf32>) -> (tensor<3x64xf32>, tensor<1x64xf32>, tensor<9x64xf32>, tensor<9x64xf32>)
  func.return %a, %b, %c, %d : tensor<3x64xf32>, tensor<1x64xf32>, tensor<9x64xf32>, tensor<9x64xf32>
}
