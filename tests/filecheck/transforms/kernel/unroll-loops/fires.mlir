// RUN: cuesta-opt %s --split-input-file -p unroll-loops | filecheck %s
// RUN: cuesta-opt %s --split-input-file -p "unroll-loops,unroll-loops" | filecheck %s
// ROUNDTRIP
// Running sums of columns: 26 points read in four groups. Twice is as good as once.

// CHECK-LABEL: kernel.func @sums
// CHECK: kernel.scan (%{{.*}} = 0 to 26) unroll 7 {
kernel.func @sums(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [2], target = cuda, warps = 1> {
  %p = kernel.program_id 0
  kernel.for (%i = %p * 64 to %p * 64 + 64 lanes 64) {
    kernel.scan (%k = 0 to 26) {
      %v = kernel.load %x[%k * 128 + %i] : vector<64xf32>
      %s = kernel.running sum %v : vector<64xf32>
      kernel.store %s, %o[%k * 128 + %i] : vector<64xf32>
    }
  }
}
func.func @main(%x : tensor<26x128xf32>) -> tensor<26x128xf32> {
  %y = kernel.launch @sums(%x) : (tensor<26x128xf32>) -> tensor<26x128xf32>
  func.return %y : tensor<26x128xf32>
}

// -----

// Points that are independent, of the last of two axes; 16 numbers of a thread, so two points at a time.

// CHECK-LABEL: kernel.func @doubled
// CHECK: kernel.for (%{{.*}} = 0 to 3, %{{.*}} = 0 to 5) unroll 2 {
kernel.func @doubled(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  kernel.for (%i = 0 to 512 lanes 512) {
    kernel.for (%j = 0 to 3, %k = 0 to 5) {
      %v = kernel.load %x[%j * 2560 + %k * 512 + %i] : vector<512xf32>
      %s = elem.add %v, %v : vector<512xf32>
      kernel.store %s, %o[%j * 2560 + %k * 512 + %i] : vector<512xf32>
    }
  }
}
func.func @main(%x : tensor<3x5x512xf32>) -> tensor<3x5x512xf32> {
  %y = kernel.launch @doubled(%x) : (tensor<3x5x512xf32>) -> tensor<3x5x512xf32>
  func.return %y : tensor<3x5x512xf32>
}

// -----

// A walk along lanes, of which a thread has two numbers in each step; a reduction and a loop that stores.

// CHECK-LABEL: kernel.func @scaled
// CHECK: kernel.reduce sum (%{{.*}} = 0 to 512 lanes 64) unroll 8 {
// CHECK: kernel.for (%{{.*}} = 0 to 500 lanes 64) unroll 8 {
kernel.func @scaled(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
  %s = kernel.reduce sum (%i = 0 to 512 lanes 64) {
    %v = kernel.load %x[%i] : vector<64xf32>
    kernel.yield %v : vector<64xf32>
  } : f32
  kernel.for (%i = 0 to 500 lanes 64) {
    %v = kernel.load %x[%i] : vector<64xf32>
    %t = kernel.broadcast %s : f32 to vector<64xf32>
    %w = elem.mul %v, %t : vector<64xf32>
    kernel.store %w, %o[%i] : vector<64xf32>
  }
}
func.func @main(%x : tensor<512xf32>) -> tensor<500xf32> {
  %y = kernel.launch @scaled(%x) : (tensor<512xf32>) -> tensor<500xf32>
  func.return %y : tensor<500xf32>
}
