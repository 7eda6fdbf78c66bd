// RUN: cuesta-opt %s -p "loops-to-kernel" --split-input-file

// What is read across gets a tile: lanes along both axes, so that the target can transpose in registers.
// CHECK:      kernel.func @{{.*}} schedule #kernel.schedule<grid = [16, 2], parallel = 1, {{.*}}> {
// CHECK:        kernel.for (%i = %p * 64 to %p * 64 + 64 lanes 8) {
// CHECK-NEXT:     %s = kernel.load %scale[%i] : vector<8xf32>
// CHECK-NEXT:     %0 = kernel.broadcast %s : vector<8xf32> to vector<8x8xf32>
// CHECK-NEXT:     kernel.for (%j = %p_1 * 256 to %p_1 * 256 + 256 lanes 8 dim 1) {
// CHECK-NEXT:       %a = kernel.load %x[%i * 512 + %j] : vector<8x8xf32>
// CHECK-NEXT:       %b = kernel.load %t[%i + %j * 1024] : vector<8x8xf32>
// CHECK-NEXT:       %c = elem.add %a, %b : vector<8x8xf32>
// CHECK-NEXT:       %d = elem.mul %c, %0 : vector<8x8xf32>
// CHECK-NEXT:       kernel.store %d, %o[%i * 512 + %j] : vector<8x8xf32>
func.func @main(%x : tensor<1024x512xf32>, %t : tensor<512x1024xf32>, %scale : tensor<1024xf32>) -> tensor<1024x512xf32> {
  %y = loops.nest (%i : 1024, %j : 512) outs(%o : tensor<1024x512xf32>) {
    %a = loops.load %x[%i, %j] : tensor<1024x512xf32>
    %b = loops.load %t[%j, %i] : tensor<512x1024xf32>
    %s = loops.load %scale[%i] : tensor<1024xf32>
    %c = elem.add %a, %b : f32
    %d = elem.mul %c, %s : f32
    loops.store %d, %o[%i, %j] : tensor<1024x512xf32>
  }
  func.return %y : tensor<1024x512xf32>
}

// -----
// Two outs with different orders: one is stored across.
// CHECK:      kernel.for (%i = {{.*}} lanes 8) {
// CHECK-NEXT:   kernel.for (%j = {{.*}} lanes 8 dim 1) {
// CHECK-NEXT:     %a = kernel.load %x[%i * 40 + %j] : vector<8x8xf32>
// CHECK-NEXT:     kernel.store %a, %o[%i * 40 + %j] : vector<8x8xf32>
// CHECK-NEXT:     %b = elem.neg %a : vector<8x8xf32>
// CHECK-NEXT:     kernel.store %b, %q[%i + %j * 30] : vector<8x8xf32>
func.func @main(%x : tensor<30x40xf32>) -> (tensor<30x40xf32>, tensor<40x30xf32>) {
  %y, %z = loops.nest (%i : 30, %j : 40) outs(%o : tensor<30x40xf32>, %q : tensor<40x30xf32>) {
    %a = loops.load %x[%i, %j] : tensor<30x40xf32>
    loops.store %a, %o[%i, %j] : tensor<30x40xf32>
    %b = elem.neg %a : f32
    loops.store %b, %q[%j, %i] : tensor<40x30xf32>
  }
  func.return %y, %z : tensor<30x40xf32>, tensor<40x30xf32>
}

// -----
// Sizes known at run time, and a batch around.
// CHECK:      kernel.for (%i = %p_1 * 64 to min(%p_1 * 64 + 64, s0) lanes 8) {
// CHECK-NEXT:   kernel.for (%j = 0 to 70 lanes 8 dim 1) {
// CHECK-NEXT:     %a = kernel.load %x[%p * s0 * 70 + %i + %j * s0] : vector<8x8xf32>
func.func @main(%x : tensor<5x70x?xf32, #aten.layout<sizes = [5, 70, s0]>>) -> tensor<5x?x70xf32, #aten.layout<sizes = [5, s0, 70]>> attributes {sym.symbols = #sym.symbols<s0 in [2, 4096]>} {
  %y = loops.nest (%n : 5, %i : s0, %j : 70) outs(%o : tensor<5x?x70xf32, #aten.layout<sizes = [5, s0, 70]>>) {
    %a = loops.load %x[%n, %j, %i] : tensor<5x70x?xf32, #aten.layout<sizes = [5, 70, s0]>>
    loops.store %a, %o[%n, %i, %j] : tensor<5x?x70xf32, #aten.layout<sizes = [5, s0, 70]>>
  }
  func.return %y : tensor<5x?x70xf32, #aten.layout<sizes = [5, s0, 70]>>
}

// -----
// An index made of data may be out of range, which is a branch: blocks that stay in the cache, but no tile.
// CHECK:      kernel.for (%i = {{.*}}, %j = {{.*}} lanes 8) {
// CHECK-NOT:  dim 1
func.func @main(%x : tensor<512x1024xf32>, %k : tensor<1024xi64>) -> tensor<1024x512xf32> {
  %y = loops.nest (%i : 1024, %j : 512) outs(%o : tensor<1024x512xf32>) {
    %a = loops.load %x[%j, %i] : tensor<512x1024xf32>
    %q = loops.load %k[%i] : tensor<1024xi64>
    %b = loops.bound %q, 512 : i64
    %c = loops.load %x[%b, %j] : tensor<512x1024xf32>
    %d = elem.add %a, %c : f32
    loops.store %d, %o[%i, %j] : tensor<1024x512xf32>
  }
  func.return %y : tensor<1024x512xf32>
}

// -----
// Every second element along the lanes is no transpose.
// CHECK:      kernel.for (%j = {{.*}} lanes 8) {
// CHECK-NEXT:   %a = kernel.load %x[%j * 2] : vector<8xf32>
func.func @main(%x : tensor<300x200xf32>) -> tensor<300x100xf32> {
  %y = loops.nest (%i : 300, %j : 100) outs(%o : tensor<300x100xf32>) {
    %a = loops.load %x[%i, %j * 2] : tensor<300x200xf32>
    %b = elem.sqrt %a : f32
    loops.store %b, %o[%i, %j] : tensor<300x100xf32>
  }
  func.return %y : tensor<300x100xf32>
}
