// RUN: cuesta-opt %s --machine "processors=4" -p "choose-parts{target=cuda},split-reductions{target=cuda},loops-to-kernel{target=cuda}" --split-input-file

// Pointwise: a program is one tile. The text of a tile is a loop that runs once.
// CHECK:      kernel.func @exp_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [20], target = cuda, warps = 4, index = 32> {
// CHECK-NEXT:   %p = kernel.program_id 0
// CHECK-NEXT:   kernel.for (%j = %p * 1024 to min(%p * 1024 + 1024, 20000) lanes 1024) {
// CHECK-NEXT:     %a = kernel.load %x[%j] : vector<1024xf32>
func.func @main(%x : tensor<100x200xf32>) -> tensor<100x200xf32> {
  %y = loops.nest (%i : 100, %j : 200) outs(%o : tensor<100x200xf32>) {
    %a = loops.load %x[%i, %j] : tensor<100x200xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<100x200xf32>
  }
  func.return %y : tensor<100x200xf32>
}

// -----
// Axes that do not merge become one all the same, with a division.
// CHECK:     kernel.for (%j = %p * 1024 to min(%p * 1024 + 1024, 1400) lanes 1024) {
// CHECK:       kernel.load %x[%j] : vector<1024xf32>
// CHECK:       kernel.load %b[%j mod 7] : vector<1024xf32>
func.func @main(%x : tensor<200x7xf32>, %b : tensor<7xf32>) -> tensor<200x7xf32> {
  %y = loops.nest (%i : 200, %j : 7) outs(%o : tensor<200x7xf32>) {
    %a = loops.load %x[%i, %j] : tensor<200x7xf32>
    %c = loops.load %b[%j] : tensor<7xf32>
    %d = elem.add %a, %c : f32
    loops.store %d, %o[%i, %j] : tensor<200x7xf32>
  }
  func.return %y : tensor<200x7xf32>
}

// -----
// Transposed: a square, so that both sides are read and written in order.
// CHECK:     grid = [4, 2]
// CHECK:     kernel.for (%i = %p * 32 to min(%p * 32 + 32, 100) lanes 32) {
// CHECK:       kernel.for (%j = %p_1 * 32 to min(%p_1 * 32 + 32, 50) lanes 32 dim 1) {
// CHECK-NEXT:    %a = kernel.load %x[%i + %j * 100] : vector<32x32xf32>
// CHECK-NEXT:    kernel.store %a, %o[%i * 50 + %j] : vector<32x32xf32>
func.func @main(%x : tensor<50x100xf32>) -> tensor<100x50xf32> {
  %y = loops.nest (%i : 100, %j : 50) outs(%o : tensor<100x50xf32>) {
    %a = loops.load %x[%j, %i] : tensor<50x100xf32>
    loops.store %a, %o[%i, %j] : tensor<100x50xf32>
  }
  func.return %y : tensor<100x50xf32>
}

// -----
// Many short rows: two dimensions. What a row has is repeated along the columns by a broadcast.
// CHECK:     kernel.for (%i = %p * 8 to {{.*}} lanes 8) {
// CHECK-NEXT:  %m = kernel.reduce maximum (%j = 0 to 60 lanes 64 dim 1) {
// CHECK-NEXT:    %a = kernel.load %x[%i * 60 + %j] : vector<8x64xf32>
// CHECK-NEXT:    kernel.yield %a : vector<8x64xf32>
// CHECK-NEXT:  } : vector<8xf32>
// CHECK-NEXT:  %0 = kernel.broadcast %m : vector<8xf32> to vector<8x64xf32>
// CHECK-NEXT:  kernel.for (%k = 0 to 60 lanes 64 dim 1) {
func.func @main(%x : tensor<200x60xf32>) -> tensor<200x60xf32> {
  %y = loops.nest (%i : 200) outs(%o : tensor<200x60xf32>) {
    %m = loops.reduce maximum (%j : 60) {
      %a = loops.load %x[%i, %j] : tensor<200x60xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%k : 60) {
      %b = loops.load %x[%i, %k] : tensor<200x60xf32>
      %c = elem.sub %b, %m : f32
      loops.store %c, %o[%i, %k] : tensor<200x60xf32>
    }
  }
  func.return %y : tensor<200x60xf32>
}

// -----
// Columns: lanes along the columns, and along the rows within.
// CHECK:     kernel.for (%i = %p * 32 to min(%p * 32 + 32, 300) lanes 32) {
// CHECK-NEXT:  %s = kernel.reduce sum (%j = 0 to 500 lanes 512 dim 1) {
// CHECK-NEXT:    %a = kernel.load %x[%i + %j * 300] : vector<32x512xf32>
// CHECK:       } : vector<32xf32>
// CHECK-NEXT:  kernel.store %s, %o[%i] : vector<32xf32>
func.func @main(%x : tensor<500x300xf32>) -> tensor<300xf32> {
  %y = loops.nest (%i : 300) outs(%o : tensor<300xf32>) {
    %s = loops.reduce sum (%j : 500) {
      %a = loops.load %x[%j, %i] : tensor<500x300xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<300xf32>
  }
  func.return %y : tensor<300xf32>
}

// -----
// One long row: parts, each a program's, and then their sum.
// CHECK:     kernel.func @sum_0
// CHECK-SAME:  grid = [32]
// CHECK:     kernel.func @sum_1
// CHECK-SAME:  grid = []
// CHECK:       kernel.reduce sum (%{{.*}} = 0 to 32 lanes 32)
func.func @main(%x : tensor<64000xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 64000) {
      %a = loops.load %x[%j] : tensor<64000xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// A window: every lane reduces its own.
// CHECK:     kernel.for (%i = %p * 512 to min(%p * 512 + 512, 300) lanes 512) {
// CHECK-NEXT:  %m = kernel.reduce maximum (%j = 0 to 3) {
// CHECK-NEXT:    %a = kernel.load %x[%i + %j] : vector<512xf32>
// CHECK-NEXT:    kernel.yield %a : vector<512xf32>
// CHECK-NEXT:  } : vector<512xf32>
func.func @main(%x : tensor<302xf32>) -> tensor<300xf32> {
  %y = loops.nest (%i : 300) outs(%o : tensor<300xf32>) {
    %m = loops.reduce maximum (%j : 3) {
      %a = loops.load %x[%i + %j] : tensor<302xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i] : tensor<300xf32>
  }
  func.return %y : tensor<300xf32>
}

// -----
// No bound on a symbol: addresses may not fit 32 bits, and a row's length is not known.
// CHECK:     kernel.func @sum_0({{.*}}) symbols(s0, s1) schedule #kernel.schedule<grid = [s0], target = cuda, warps = {{.*}}, index = 64> {
// CHECK:       kernel.reduce sum (%j = 0 to s1 lanes 512)
func.func @main(%x : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>) -> tensor<?xf32, #aten.layout<sizes = [s0]>> attributes {sym.symbols = #sym.symbols<s0 in [2, inf], s1 in [2, inf]>} {
  %y = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %s = loops.reduce sum (%j : s1) {
      %a = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  func.return %y : tensor<?xf32, #aten.layout<sizes = [s0]>>
}

// -----
// No elements: no programs.
// CHECK:     grid = [0]
func.func @main(%x : tensor<0x8xf32>) -> tensor<0x8xf32> {
  %y = loops.nest (%i : 0, %j : 8) outs(%o : tensor<0x8xf32>) {
    %a = loops.load %x[%i, %j] : tensor<0x8xf32>
    loops.store %a, %o[%i, %j] : tensor<0x8xf32>
  }
  func.return %y : tensor<0x8xf32>
}
