// RUN: cuesta-opt %s -p "choose-parts,split-reductions,loops-to-kernel" --split-input-file

// Sizes known at run time: the axes still merge, the last tile may be smaller.
// CHECK:      kernel.func @add_0({{.*}}) outs({{.*}}) symbols(s0) schedule #kernel.schedule<grid = [(s0 * 1024 + 4095) floordiv 4096], parallel = 1, grain = 5, unroll = 4> {
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

// -----
// A whole sum of a size that only the call knows: parts of one size on all threads, then the parts and the rest.
// CHECK:      kernel.func @sum_0({{.*}}) symbols(s0) schedule #kernel.schedule<grid = [s0 floordiv 4096], parallel = 1, grain = 8, unroll = 4> {
// CHECK-NEXT:   %p = kernel.program_id 0
// CHECK-NEXT:   kernel.reduce sum (%j = 0 to 4096 lanes 8) {
// CHECK-NEXT:     kernel.load %x[%p * 4096 + %j] : vector<8xf32>
// CHECK:      kernel.func @sum_1({{.*}}) symbols(s0) schedule #kernel.schedule<grid = [], parallel = 0, unroll = 4> {
// CHECK-NEXT:   [[A:%.+]] = kernel.reduce sum ({{%.+}} = 0 to s0 floordiv 4096) {
// CHECK:        [[B:%.+]] = kernel.reduce sum (%j = 0 to s0 mod 4096 lanes 8) {
// CHECK-NEXT:     kernel.load %x[%j + (s0 floordiv 4096) * 4096] : vector<8xf32>
// CHECK:        %s = elem.add [[A]], [[B]] : f32
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> tensor<f32> attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : s0) {
      %a = loops.load %x[%j] : tensor<?xf32, #aten.layout<sizes = [s0]>>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// With a symbolic size inside, too, a part has a few rows; a greatest is split as a sum is.
// CHECK:      kernel.func @max_0({{.*}}) symbols(s0, s1) schedule #kernel.schedule<grid = [s0 floordiv 8], {{.*}}> {
// CHECK:        %m = elem.maximum
func.func @main(%x : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>) -> tensor<f32> attributes {sym.symbols = #sym.symbols<s0 in [2, inf], s1 in [2, inf]>} {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %m = loops.reduce maximum (%i : s0, %j : s1) {
      %a = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// Near miss: rows of their own are work for all threads, as long as they may be.
// CHECK:      kernel.func @sum_0({{.*}}) symbols(s0) schedule #kernel.schedule<grid = [64], parallel = 1, unroll = 4> {
// CHECK-NOT:  kernel.func
func.func @main(%x : tensor<64x?xf32, #aten.layout<sizes = [64, s0]>>) -> tensor<64xf32> attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce sum (%j : s0) {
      %a = loops.load %x[%i, %j] : tensor<64x?xf32, #aten.layout<sizes = [64, s0]>>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}
