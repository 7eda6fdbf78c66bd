// RUN: cuesta-opt %s --split-input-file -p turn-scans | filecheck %s
// Two scans in one kernel, of which one goes backwards; a scan of one point.

// CHECK-LABEL: kernel.func @two
// CHECK: kernel.load %x[%{{.*}}] : vector<8xf32>
// CHECK: kernel.running sum backwards
// CHECK: kernel.load %x[%{{.*}}] : vector<8xf32>
// CHECK: kernel.running sum %
// CHECK: kernel.load %x[%{{.*}} + 7] : vector<2xf32>
// CHECK: kernel.running sum backwards
kernel.func @two(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>, %q : !kernel.ptr<f32>, %r : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1> {
  kernel.scan (%k = 0 to 8 lanes 8) {
    %v = kernel.load %x[7 - %k] : vector<8xf32>
    %s = kernel.running sum %v : vector<8xf32>
    kernel.store %s, %o[7 - %k] : vector<8xf32>
  }
  kernel.scan (%k = 0 to 8 lanes 8) {
    %v = kernel.load %x[%k] : vector<8xf32>
    %s = kernel.running sum %v : vector<8xf32>
    kernel.store %s, %q[%k] : vector<8xf32>
  }
  kernel.scan (%k = 0 to 1 lanes 2) {
    %v = kernel.load %x[7 - %k] : vector<2xf32>
    %s = kernel.running sum %v : vector<2xf32>
    kernel.store %s, %r[0 - %k] : vector<2xf32>
  }
}
func.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<1xf32>) {
  %y, %z, %u = kernel.launch @two(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<1xf32>)
  func.return %y, %z, %u : tensor<8xf32>, tensor<8xf32>, tensor<1xf32>
}
