// RUN: cuesta-opt %s --split-input-file -p unroll-loops | filecheck %s
// One tile; a thread with many numbers; what does not go along with the loop; a kernel for a CPU.

// CHECK-LABEL: kernel.func @lanes
// CHECK-NOT: unroll
kernel.func @lanes(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  kernel.for (%i = 0 to 512 lanes 512) {
    %v = kernel.load %x[%i] : vector<512xf32>
    kernel.store %v, %o[%i] : vector<512xf32>
  }
}
func.func @main(%x : tensor<512xf32>) -> tensor<512xf32> {
  %y = kernel.launch @lanes(%x) : (tensor<512xf32>) -> tensor<512xf32>
  func.return %y : tensor<512xf32>
}

// -----

// CHECK-LABEL: kernel.func @large
// CHECK-NOT: unroll
kernel.func @large(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  %s = kernel.reduce sum (%i = 0 to 4096 lanes 1024) {
    %v = kernel.load %x[%i] : vector<1024xf32>
    kernel.yield %v : vector<1024xf32>
  } : f32
  kernel.store %s, %o[0] : f32
}
func.func @main(%x : tensor<4096xf32>) -> tensor<1xf32> {
  %y = kernel.launch @large(%x) : (tensor<4096xf32>) -> tensor<1xf32>
  func.return %y : tensor<1xf32>
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

// -----

// A processor has more than 64 warps of such programs; and one of few looks for a place.

// CHECK-LABEL: kernel.func @crowded
// CHECK-NOT: unroll
kernel.func @crowded(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [16384], target = cuda, warps = 1> {
  %p = kernel.program_id 0
  %s = kernel.reduce sum (%i = 0 to 512 lanes 64) {
    %v = kernel.load %x[%p * 512 + %i] : vector<64xf32>
    kernel.yield %v : vector<64xf32>
  } : f32
  kernel.store %s, %o[%p] : f32
}
func.func @main(%x : tensor<16384x512xf32>) -> tensor<16384xf32> {
  %y = kernel.launch @crowded(%x) : (tensor<16384x512xf32>) -> tensor<16384xf32>
  func.return %y : tensor<16384xf32>
}

// -----

// CHECK-LABEL: kernel.func @placed
// CHECK-NOT: unroll
kernel.func @placed(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<i64>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  %s, %w = kernel.reduce argmax (%i = 0 to 512 lanes 64) {
    %v = kernel.load %x[%i] : vector<64xf32>
    kernel.yield %v : vector<64xf32>
  } : f32, i64
  kernel.store %w, %o[0] : i64
}
func.func @main(%x : tensor<512xf32>) -> tensor<1xi64> {
  %y = kernel.launch @placed(%x) : (tensor<512xf32>) -> tensor<1xi64>
  func.return %y : tensor<1xi64>
}
