// RUN: cuesta-opt %s -p loops-to-kernel

// Matrices of other shapes with as many elements are the same axis; one with fewer is another.
// CHECK:      kernel.func @exp_0(
// CHECK:      kernel.func @exp_2(
// CHECK:      func.func @main
// CHECK-NEXT:   kernel.launch @exp_0(%x)
// CHECK-NEXT:   kernel.launch @exp_0(%y)
// CHECK-NEXT:   kernel.launch @exp_2(%z)
func.func @main(%x : tensor<8x16xf32>, %y : tensor<32x4xf32>, %z : tensor<8x8xf32>) -> (tensor<8x16xf32>, tensor<32x4xf32>, tensor<8x8xf32>) {
  %a = loops.nest (%i : 8, %j : 16) outs(%o : tensor<8x16xf32>) {
    %v = loops.load %x[%i, %j] : tensor<8x16xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<8x16xf32>
  }
  %b = loops.nest (%i : 32, %j : 4) outs(%o : tensor<32x4xf32>) {
    %v = loops.load %y[%i, %j] : tensor<32x4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<32x4xf32>
  }
  %c = loops.nest (%i : 8, %j : 8) outs(%o : tensor<8x8xf32>) {
    %v = loops.load %z[%i, %j] : tensor<8x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<8x8xf32>
  }
  func.return %a, %b, %c : tensor<8x16xf32>, tensor<32x4xf32>, tensor<8x8xf32>
}
