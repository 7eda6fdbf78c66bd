// RUN: cuesta-opt %s -p "choose-parts,split-reductions,loops-to-kernel" --split-input-file
// SLOW

// Rows: a program each, lanes along the row; the temporary is scratch memory and no result of the launch.
// CHECK:      kernel.func @softmax_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [4096], parallel = 1, unroll = 2> {
// CHECK-NEXT:   %0 = kernel.local 1024 : !kernel.ptr<f32>
// CHECK-NEXT:   %p = kernel.program_id 0
// CHECK-NEXT:   %m = kernel.reduce maximum (%j = 0 to 1024 lanes 8) {
// CHECK-NEXT:     %a = kernel.load %x[%p * 1024 + %j] : vector<8xf32>
// CHECK-NEXT:     kernel.yield %a : vector<8xf32>
// CHECK-NEXT:   } : f32
// CHECK-NEXT:   %1 = kernel.broadcast %m : f32 to vector<8xf32>
// CHECK-NEXT:   %s = kernel.reduce sum (%j = 0 to 1024 lanes 8) {
// CHECK:          kernel.store %e, %0[%j] : vector<8xf32>
// CHECK-NEXT:     kernel.yield %e : vector<8xf32>
// CHECK-NEXT:   } : f32
// CHECK-NEXT:   %2 = kernel.broadcast %s : f32 to vector<8xf32>
// CHECK-NEXT:   kernel.for (%j = 0 to 1024 lanes 8) {
// CHECK-NEXT:     %e = kernel.load %0[%j] : vector<8xf32>
// CHECK:      %y = kernel.launch @softmax_0(%x) : (tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>)
func.func @main(%x : tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  %y, %t = loops.nest (%i : 4096) outs(%o : tensor<4096x1024xf32>, %tmp : tensor<4096x1024xf32>) {
    %m = loops.reduce maximum (%j : 1024) {
      %a = loops.load %x[%i, %j] : tensor<4096x1024xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %x[%i, %j] : tensor<4096x1024xf32>
      %b = elem.sub %a, %m : f32
      %e = elem.exp %b : f32
      loops.store %e, %tmp[%i, %j] : tensor<4096x1024xf32>
      loops.yield %e : f32
    } : f32
    loops.for (%j : 1024) {
      %e = loops.load %tmp[%i, %j] : tensor<4096x1024xf32>
      %q = elem.div %e, %s : f32
      loops.store %q, %o[%i, %j] : tensor<4096x1024xf32>
    }
  }
  func.return %y : tensor<4096x1024xf32>
}

// -----
// Columns: lanes across, several vectors side by side; the reduction is serial and gives vectors.
// CHECK:      kernel.for (%j = %p * 128 to %p * 128 + 128 lanes 128) {
// CHECK-NEXT:   %s = kernel.reduce sum (%i = 0 to 512) {
// CHECK-NEXT:     %a = kernel.load %x[%j + %i * 1024] : vector<128xf32>
// CHECK-NEXT:     kernel.yield %a : vector<128xf32>
// CHECK-NEXT:   } : vector<128xf32>
// CHECK-NEXT:   kernel.store %s, %o[%j] : vector<128xf32>
func.func @main(%x : tensor<512x1024xf32>) -> tensor<1024xf32> {
  %c = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce sum (%i : 512) {
      %a = loops.load %x[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %c : tensor<1024xf32>
}

// -----
// Everything to one number: in parts, for the threads.
// CHECK:      kernel.func @sum_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [32], parallel = 1, unroll = 4> {
// CHECK:        kernel.reduce sum (%i = 0 to 16384 lanes 8) {
// CHECK:      kernel.func @sum_1({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [], parallel = 0
// CHECK:        kernel.reduce sum ({{.*}} = 0 to 32 lanes 8) {
func.func @main(%x : tensor<512x1024xf32>) -> tensor<f32> {
  %f = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%h : 512, %i : 1024) {
      %a = loops.load %x[%h, %i] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %f : tensor<f32>
}

// -----
// A small window in a large image: lanes on the image's rows.
// CHECK:      kernel.for (%h = %p * 32 to %p * 32 + 32, %w = 0 to 28 lanes 8) {
// CHECK-NEXT:   %m = kernel.reduce maximum (%k = 0 to 2, %l = 0 to 2) {
// CHECK-NEXT:     kernel.load %x[%h * 112 + %w * 2 + %k * 56 + %l] : vector<8xf32>
func.func @main(%x : tensor<8x64x56x56xf32>) -> tensor<8x64x28x28xf32> {
  %y = loops.nest (%n : 8, %c : 64, %h : 28, %w : 28) outs(%o : tensor<8x64x28x28xf32>) {
    %m = loops.reduce maximum (%k : 2, %l : 2) {
      %a = loops.load %x[%n, %c, %h * 2 + %k, %w * 2 + %l] : tensor<8x64x56x56xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%n, %c, %h, %w] : tensor<8x64x28x28xf32>
  }
  func.return %y : tensor<8x64x28x28xf32>
}
