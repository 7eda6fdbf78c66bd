// RUN: cuesta-opt %s -p "hint-loads" --split-input-file

// CHECK:      kernel.load %x[%j] : vector<32xf32> evict_last
kernel.func @copy_0(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4], target = cuda, warps = 1, index = 32, reread = 1> {
  %p = kernel.program_id 0
  kernel.for (%j = %p * 32 to %p * 32 + 32 lanes 32) {
    %a = kernel.load %x[%j] : vector<32xf32>
    kernel.store %a, %o[%j] : vector<32xf32>
  }
}
func.func @main(%x: tensor<128xf32>) -> tensor<128xf32> {
  %y = kernel.launch @copy_0(%x) : (tensor<128xf32>) -> (tensor<128xf32>)
  func.return %y : tensor<128xf32>
}

// -----
// CHECK:      kernel.load %x[%j] : vector<32xf32> evict_first
kernel.func @copy_0(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4], target = cuda, warps = 1, index = 32, reread = 0> {
  %p = kernel.program_id 0
  kernel.for (%j = %p * 32 to %p * 32 + 32 lanes 32) {
    %a = kernel.load %x[%j] : vector<32xf32>
    kernel.store %a, %o[%j] : vector<32xf32>
  }
}
func.func @main(%x: tensor<128xf32>) -> tensor<128xf32> {
  %y = kernel.launch @copy_0(%x) : (tensor<128xf32>) -> (tensor<128xf32>)
  func.return %y : tensor<128xf32>
}

// -----
// Near miss: nothing is said.
// CHECK-NOT:  evict
kernel.func @copy_0(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4], target = cuda, warps = 1, index = 32> {
  %p = kernel.program_id 0
  kernel.for (%j = %p * 32 to %p * 32 + 32 lanes 32) {
    %a = kernel.load %x[%j] : vector<32xf32>
    kernel.store %a, %o[%j] : vector<32xf32>
  }
}
func.func @main(%x: tensor<128xf32>) -> tensor<128xf32> {
  %y = kernel.launch @copy_0(%x) : (tensor<128xf32>) -> (tensor<128xf32>)
  func.return %y : tensor<128xf32>
}

// -----
// Near miss: all programs read one row; the cache has it.
// CHECK-NOT:  evict
kernel.func @copy_0(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4], target = cuda, warps = 1, index = 32, reread = 1> {
  %p = kernel.program_id 0
  kernel.for (%j = %p * 32 to %p * 32 + 32 lanes 32) {
    %b = kernel.load %x[0] : f32
    %a = kernel.broadcast %b : f32 to vector<32xf32>
    kernel.store %a, %o[%j] : vector<32xf32>
  }
}
func.func @main(%x: tensor<128xf32>) -> tensor<128xf32> {
  %y = kernel.launch @copy_0(%x) : (tensor<128xf32>) -> (tensor<128xf32>)
  func.return %y : tensor<128xf32>
}
