// RUN: cuesta-opt %s --split-input-file -p turn-scans | filecheck %s
// RUN: cuesta-opt %s --split-input-file | filecheck %s
// Lanes that hold a part of the points; what goes forwards as well; steps of two; places; a kernel for the CPU; a scan
// that is turned already.

// CHECK-LABEL: kernel.func @part
// CHECK: kernel.load %x[-%{{.*}} + 15] : vector<8xf32>
// CHECK-NOT: backwards
kernel.func @part(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1> {
  kernel.scan (%k = 0 to 16 lanes 8) {
    %v = kernel.load %x[15 - %k] : vector<8xf32>
    %s = kernel.running sum %v : vector<8xf32>
    kernel.store %s, %o[15 - %k] : vector<8xf32>
  }
}
func.func @main(%x : tensor<16xf32>) -> tensor<16xf32> {
  %y = kernel.launch @part(%x) : (tensor<16xf32>) -> tensor<16xf32>
  func.return %y : tensor<16xf32>
}

// -----

// CHECK-LABEL: kernel.func @forwards
// CHECK-NOT: backwards
kernel.func @forwards(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1> {
  kernel.scan (%k = 0 to 8 lanes 8) {
    %v = kernel.load %x[7 - %k] : vector<8xf32>
    %s = kernel.running sum %v : vector<8xf32>
    kernel.store %s, %o[%k] : vector<8xf32>
  }
}
func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch @forwards(%x) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----

// CHECK-LABEL: kernel.func @twos
// CHECK-NOT: backwards
kernel.func @twos(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1> {
  kernel.scan (%k = 0 to 8 lanes 8) {
    %v = kernel.load %x[14 - %k * 2] : vector<8xf32>
    %s = kernel.running sum %v : vector<8xf32>
    kernel.store %s, %o[7 - %k] : vector<8xf32>
  }
}
func.func @main(%x : tensor<15xf32>) -> tensor<8xf32> {
  %y = kernel.launch @twos(%x) : (tensor<15xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----

// CHECK-LABEL: kernel.func @places
// CHECK-NOT: backwards
kernel.func @places(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>, %n : !kernel.ptr<i64>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1> {
  kernel.scan (%k = 0 to 8 lanes 8) {
    %v = kernel.load %x[7 - %k] : vector<8xf32>
    %s, %where = kernel.running last_argmax %v : vector<8xf32>
    kernel.store %s, %o[7 - %k] : vector<8xf32>
    kernel.store %where, %n[7 - %k] : vector<8xi64>
  }
}
func.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xi64>) {
  %y, %z = kernel.launch @places(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xi64>)
  func.return %y, %z : tensor<8xf32>, tensor<8xi64>
}

// -----

// CHECK-LABEL: kernel.func @cpu
// CHECK-NOT: backwards
kernel.func @cpu(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  kernel.scan (%k = 0 to 8 lanes 8) {
    %v = kernel.load %x[7 - %k] : vector<8xf32>
    %s = kernel.running sum %v : vector<8xf32>
    kernel.store %s, %o[7 - %k] : vector<8xf32>
  }
}
func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch @cpu(%x) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----

// CHECK-LABEL: kernel.func @turned
// CHECK: kernel.load %x[-%[[K:.*]] + 7] : vector<8xf32>
// CHECK-NEXT: kernel.running sum backwards
kernel.func @turned(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1> {
  kernel.scan (%k = 0 to 8 lanes 8) {
    %v = kernel.load %x[7 - %k] : vector<8xf32>
    %s = kernel.running sum backwards %v : vector<8xf32>
    kernel.store %s, %o[7 - %k] : vector<8xf32>
  }
}
func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch @turned(%x) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}
