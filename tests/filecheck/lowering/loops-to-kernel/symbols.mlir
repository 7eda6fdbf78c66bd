// RUN: cuesta-opt %s -p "loops-to-kernel{lanes=8}" --split-input-file

// Sizes known at run time: the axes still merge, the last tile may be smaller.
// CHECK:      kernel.func @add_0({{.*}}) outs({{.*}}) symbols(s0) schedule #kernel.schedule<grid = [(s0 * 1024 + 4095) floordiv 4096], parallel = 1, unroll = 4> {
// CHECK-NEXT:   %p = kernel.program_id 0
// CHECK-NEXT:   kernel.for (%j = %p * 4096 to min(%p * 4096 + 4096, s0 * 1024) lanes 8) {
// CHECK-NEXT:     %a = kernel.load %x[%j] : vector<8xf32>
func.func @main(%x : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>) -> tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>> attributes {sym.symbols = #sym.symbols<s0 in [2, 4096]>} {
  %y = loops.nest (%i : s0, %j : 1024) outs(%o : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>) {
    %a = loops.load %x[%i, %j] : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>
    %e = elem.add %a, %a : f32
    loops.store %e, %o[%i, %j] : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>
  }
  func.return %y : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>
}

// -----
// A load does not leave a loop that may be empty, not even when it is the same in every round.
// CHECK:      kernel.reduce sum (%j = 0 to s0 lanes 8) {
// CHECK-NEXT:   kernel.load %x[0] : f32
// CHECK:        kernel.broadcast
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> tensor<f32> attributes {sym.symbols = #sym.symbols<s0 in [0, 4096]>} {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : s0) {
      %a = loops.load %x[0] : tensor<?xf32, #aten.layout<sizes = [s0]>>
      %b = loops.load %x[%j] : tensor<?xf32, #aten.layout<sizes = [s0]>>
      %c = elem.mul %a, %b : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}
