// RUN: cuesta-opt %s -p "loops-to-kernel" --split-input-file

// What a schedule says by hand is how it is: vectors of 4 and of 16 lanes, and none.
// CHECK:      schedule #kernel.schedule<grid = [2], parallel = 1, unroll = 2> {
// CHECK:        kernel.load %x[%j] : vector<4xf32>
// CHECK:      schedule #kernel.schedule<grid = [100], parallel = 0, unroll = 3> {
// CHECK:        kernel.load %x[%p * 64 + %j] : vector<16xf32>
// CHECK:      kernel.func @sum_2
// CHECK:        kernel.load %x[%j + %i * 64] : f32
func.func @main(%x : tensor<100x64xf32>) -> (tensor<100x64xf32>, tensor<100xf32>, tensor<64xf32>) {
  %y = loops.nest (%i : 100, %j : 64) outs(%o : tensor<100x64xf32>) schedule #loops.schedule<lanes = 4, parallel = 1> {
    %a = loops.load %x[%i, %j] : tensor<100x64xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<100x64xf32>
  }
  %z = loops.nest (%i : 100) outs(%o : tensor<100xf32>) schedule #loops.schedule<lanes = 16, unroll = 3> {
    %s = loops.reduce sum (%j : 64) {
      %a = loops.load %x[%i, %j] : tensor<100x64xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<100xf32>
  }
  %w = loops.nest (%j : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<lanes = 1> {
    %s = loops.reduce sum (%i : 100) {
      %a = loops.load %x[%i, %j] : tensor<100x64xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<64xf32>
  }
  func.return %y, %z, %w : tensor<100x64xf32>, tensor<100xf32>, tensor<64xf32>
}

// -----
// Edges: no points, and sizes that only the call knows.
// CHECK:      kernel.for (%j = {{.*}} lanes 2) {
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> (tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<0xf32>) attributes {sym.symbols = #sym.symbols<s0 in [0, inf]>} {
  %y = loops.nest (%j : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) schedule #loops.schedule<lanes = 2, parallel = 0> {
    %a = loops.load %x[%j] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    loops.store %a, %o[%j] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  %z = loops.nest (%j : 0) outs(%o : tensor<0xf32>) schedule #loops.schedule<lanes = 4> {
    %a = elem.constant 1.0 : f32
    loops.store %a, %o[%j] : tensor<0xf32>
  }
  func.return %y, %z : tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<0xf32>
}
