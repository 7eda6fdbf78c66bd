// RUN: cuesta-opt %s -p "loops-to-kernel{target=cuda}" --split-input-file

// What its schedule says is a contraction becomes one, with tiles of that size.
// CHECK:      kernel.func @product_0({{.*}} schedule #kernel.schedule<grid = [2, 3], target = cuda, warps = 8, index = 32, stages = 3, group = 4> {
// CHECK:      kernel.for (%i = %p * 16 to min(%p * 16 + 16, 20) lanes 16) {
// CHECK-NEXT:   kernel.for (%j = %p_1 * 32 to min(%p_1 * 32 + 32, 70) lanes 32 dim 1) {
// CHECK-NEXT:     %[[ACC:.*]] = kernel.contract (%k = 0 to 48 lanes 64 dim 2) {
// CHECK-NEXT:       %[[A:.*]] = kernel.load %x[%i * 48 + %k] : vector<16x1x64xbf16>
// CHECK-NEXT:       %[[B:.*]] = kernel.load %w[%j + %k * 70] : vector<1x32x64xbf16>
// CHECK-NEXT:       kernel.factors %[[A]], %[[B]] : vector<16x1x64xbf16>, vector<1x32x64xbf16>
// CHECK-NEXT:     } : vector<16x32xf32>
// CHECK-NEXT:     kernel.store %[[ACC]], %o[%i * 70 + %j] : vector<16x32xf32>
func.func @main(%x : tensor<20x48xbf16>, %w : tensor<48x70xbf16>) -> tensor<20x70xf32> {
  %y = loops.nest (%i : 20, %j : 70) outs(%o : tensor<20x70xf32>) schedule #loops.schedule<rows = 16, columns = 32, depth = 64, warps = 8, stages = 3, group = 4> {
    %s = loops.reduce sum (%k : 48) {
      %a = loops.load %x[%i, %k] : tensor<20x48xbf16>
      %aw = elem.convert %a : bf16 to f32
      %b = loops.load %w[%k, %j] : tensor<48x70xbf16>
      %bw = elem.convert %b : bf16 to f32
      %c = elem.mul %bw, %aw : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<20x70xf32>
  }
  func.return %y : tensor<20x70xf32>
}

// -----
// The sum of the same products without a schedule is any other reduction.
// CHECK:     kernel.reduce sum
// CHECK-NOT: kernel.contract
func.func @main(%x : tensor<20x48xbf16>, %w : tensor<48x70xbf16>) -> tensor<20x70xf32> {
  %y = loops.nest (%i : 20, %j : 70) outs(%o : tensor<20x70xf32>) {
    %s = loops.reduce sum (%k : 48) {
      %a = loops.load %x[%i, %k] : tensor<20x48xbf16>
      %aw = elem.convert %a : bf16 to f32
      %b = loops.load %w[%k, %j] : tensor<48x70xbf16>
      %bw = elem.convert %b : bf16 to f32
      %c = elem.mul %bw, %aw : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<20x70xf32>
  }
  func.return %y : tensor<20x70xf32>
}

// -----
// Other choices: wider tiles and more warps for a pointwise nest, several rows at a time for one with rows.
// CHECK:      @exp_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [10], target = cuda, warps = 8, index = 32>
// CHECK:      lanes 2048
// CHECK:      @max_1({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [25], target = cuda, warps = 2, index = 32, registers = 128>
// CHECK:      kernel.for ({{.*}} lanes 4) {
// CHECK:      kernel.reduce maximum (%j = 0 to 200 lanes 64 dim 1)
func.func @main(%x : tensor<100x200xf32>) -> (tensor<100x200xf32>, tensor<100xf32>) {
  %y = loops.nest (%i : 100, %j : 200) outs(%o : tensor<100x200xf32>) schedule #loops.schedule<lanes = 2048, warps = 8> {
    %a = loops.load %x[%i, %j] : tensor<100x200xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<100x200xf32>
  }
  %z = loops.nest (%i : 100) outs(%o : tensor<100xf32>) schedule #loops.schedule<rows = 4, lanes = 64, warps = 2> {
    %m = loops.reduce maximum (%j : 200) {
      %a = loops.load %x[%i, %j] : tensor<100x200xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i] : tensor<100xf32>
  }
  func.return %y, %z : tensor<100x200xf32>, tensor<100xf32>
}
