// RUN: cuesta-opt %s --split-input-file -p unroll-loops | filecheck %s
// A loop with lanes; one that stores nothing; what does not go along with the loop; a kernel for a CPU.

// CHECK-LABEL: kernel.func @lanes
// CHECK-NOT: unroll
kernel.func @lanes(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  kernel.for (%i = 0 to 512 lanes 64) {
    %v = kernel.load %x[%i] : vector<64xf32>
    kernel.store %v, %o[%i] : vector<64xf32>
  }
}
func.func @main(%x : tensor<512xf32>) -> tensor<512xf32> {
  %y = kernel.launch @lanes(%x) : (tensor<512xf32>) -> tensor<512xf32>
  func.return %y : tensor<512xf32>
}

// -----

// CHECK-LABEL: kernel.func @reduced
// CHECK-NOT: unroll
kernel.func @reduced(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  kernel.for (%i = 0 to 64 lanes 64) {
    %s = kernel.reduce sum (%k = 0 to 26) {
      %v = kernel.load %x[%k * 64 + %i] : vector<64xf32>
      kernel.yield %v : vector<64xf32>
    } : vector<64xf32>
    kernel.store %s, %o[%i] : vector<64xf32>
  }
}
func.func @main(%x : tensor<26x64xf32>) -> tensor<64xf32> {
  %y = kernel.launch @reduced(%x) : (tensor<26x64xf32>) -> tensor<64xf32>
  func.return %y : tensor<64xf32>
}

// -----

// CHECK-LABEL: kernel.func @repeated
// CHECK-NOT: unroll
kernel.func @repeated(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  kernel.for (%i = 0 to 64 lanes 64) {
    kernel.for (%k = 0 to 26) {
      %v = kernel.load %x[%i] : vector<64xf32>
      kernel.store %v, %o[%k * 64 + %i] : vector<64xf32>
    }
  }
}
func.func @main(%x : tensor<64xf32>) -> tensor<26x64xf32> {
  %y = kernel.launch @repeated(%x) : (tensor<64xf32>) -> tensor<26x64xf32>
  func.return %y : tensor<26x64xf32>
}

// -----

// CHECK-LABEL: kernel.func @cpu
// CHECK-NOT: unroll
kernel.func @cpu(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1]> {
  kernel.for (%i = 0 to 64 lanes 16) {
    kernel.scan (%k = 0 to 26) {
      %v = kernel.load %x[%k * 64 + %i] : vector<16xf32>
      %s = kernel.running sum %v : vector<16xf32>
      kernel.store %s, %o[%k * 64 + %i] : vector<16xf32>
    }
  }
}
func.func @main(%x : tensor<26x64xf32>) -> tensor<26x64xf32> {
  %y = kernel.launch @cpu(%x) : (tensor<26x64xf32>) -> tensor<26x64xf32>
  func.return %y : tensor<26x64xf32>
}
