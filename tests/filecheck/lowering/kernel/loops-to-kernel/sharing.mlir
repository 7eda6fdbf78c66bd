// RUN: cuesta-opt %s -p "loops-to-kernel"

// Nests that do the same share a kernel; one that reads another layout has its own.
// CHECK:     kernel.func @exp_0(
// CHECK:     kernel.func @exp_1(
// CHECK-NOT: kernel.func
// CHECK:     %a = kernel.launch @exp_0(%x)
// CHECK:     %b = kernel.launch @exp_0(%a)
// CHECK:     %c = kernel.launch @exp_1(%y)
func.func @main(%x : tensor<8x16xf32>, %y : tensor<8x16xf32, #aten.layout<strides = [1, 8]>>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %a = loops.nest (%i : 8, %j : 16) outs(%o : tensor<8x16xf32>) {
    %v = loops.load %x[%i, %j] : tensor<8x16xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<8x16xf32>
  }
  %b = loops.nest (%p : 8, %q : 16) outs(%o : tensor<8x16xf32>) {
    %v = loops.load %a[%p, %q] : tensor<8x16xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%p, %q] : tensor<8x16xf32>
  }
  %c = loops.nest (%i : 8, %j : 16) outs(%o : tensor<8x16xf32>) {
    %v = loops.load %y[%i, %j] : tensor<8x16xf32, #aten.layout<strides = [1, 8]>>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<8x16xf32>
  }
  func.return %b, %c : tensor<8x16xf32>, tensor<8x16xf32>
}
