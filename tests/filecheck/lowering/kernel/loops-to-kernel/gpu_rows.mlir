// RUN: cuesta-opt %s -p "loops-to-kernel{target=cuda}" --split-input-file

// Nothing is loaded in vectors, not even as one long row: rows have their own tiles, and nothing is divided.
// CHECK:     kernel.func @mul_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [64, 1], target = cuda
// CHECK:       kernel.for (%j = [[p:%.*]] * 1024 to min([[p]] * 1024 + 1024, 1000) lanes 1024) {
// CHECK-NOT:   floordiv
// CHECK:       kernel.store
func.func @main(%x : tensor<64x1001xf32>) -> tensor<64x1000xf32> {
  %y = loops.nest (%i : 64, %j : 1000) outs(%o : tensor<64x1000xf32>) {
    %a = loops.load %x[%i, %j + 1] : tensor<64x1001xf32>
    %b = elem.mul %a, %a : f32
    loops.store %b, %o[%i, %j] : tensor<64x1000xf32>
  }
  func.return %y : tensor<64x1000xf32>
}

// -----
// Near miss: one of the loads is contiguous over rows of odd size.
// CHECK:     kernel.func @mul_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [63], target = cuda
// CHECK:       kernel.load %z[{{.*}} mod 1001]
func.func @main(%x : tensor<64x1001xf32>, %z : tensor<1001xf32>) -> tensor<64x1001xf32> {
  %y = loops.nest (%i : 64, %j : 1001) outs(%o : tensor<64x1001xf32>) {
    %a = loops.load %x[%i, %j] : tensor<64x1001xf32>
    %c = loops.load %z[%j] : tensor<1001xf32>
    %b = elem.mul %a, %c : f32
    loops.store %b, %o[%i, %j] : tensor<64x1001xf32>
  }
  func.return %y : tensor<64x1001xf32>
}

// -----
// Near misses: rows that are short, that would leave many lanes of their last tile idle, and of a size that is not known.
// CHECK:     kernel.func @mul_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [13], target = cuda
// CHECK:     kernel.func @mul_1({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [69], target = cuda
// CHECK:     kernel.func @mul_2({{.*}}) outs({{.*}}) symbols(s0) schedule #kernel.schedule<grid = [(s0 * 64 + 1023) floordiv 1024], target = cuda
func.func @main(%x : tensor<64x201xf32>, %z : tensor<64x1101xf32>, %w : tensor<64x?xf32, #aten.layout<sizes = [64, s0 + 1], strides = [s0 + 1, 1]>>) -> (tensor<64x200xf32>, tensor<64x1100xf32>, tensor<64x?xf32, #aten.layout<sizes = [64, s0]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, 4096]>} {
  %y = loops.nest (%i : 64, %j : 200) outs(%o : tensor<64x200xf32>) {
    %a = loops.load %x[%i, %j + 1] : tensor<64x201xf32>
    %b = elem.mul %a, %a : f32
    loops.store %b, %o[%i, %j] : tensor<64x200xf32>
  }
  %u = loops.nest (%i : 64, %j : 1100) outs(%o : tensor<64x1100xf32>) {
    %a = loops.load %z[%i, %j + 1] : tensor<64x1101xf32>
    %b = elem.mul %a, %a : f32
    loops.store %b, %o[%i, %j] : tensor<64x1100xf32>
  }
  %v = loops.nest (%i : 64, %j : s0) outs(%o : tensor<64x?xf32, #aten.layout<sizes = [64, s0]>>) {
    %a = loops.load %w[%i, %j + 1] : tensor<64x?xf32, #aten.layout<sizes = [64, s0 + 1], strides = [s0 + 1, 1]>>
    %b = elem.mul %a, %a : f32
    loops.store %b, %o[%i, %j] : tensor<64x?xf32, #aten.layout<sizes = [64, s0]>>
  }
  func.return %y, %u, %v : tensor<64x200xf32>, tensor<64x1100xf32>, tensor<64x?xf32, #aten.layout<sizes = [64, s0]>>
}
