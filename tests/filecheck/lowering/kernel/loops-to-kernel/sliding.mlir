// RUN: cuesta-opt %s -p "loops-to-kernel{target=cuda}" --split-input-file

// A program does two rows of windows of 2 × 2, of three rows of the source: each is loaded and reduced once.
// CHECK:      kernel.func @max_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [1, 4], target = cuda, warps = 4, index = 32> {
// CHECK-NEXT:   %p = kernel.program_id 0
// CHECK-NEXT:   [[rows:%.*]] = kernel.program_id 1
// CHECK-NEXT:   kernel.for (%k = %p * 128 to min(%p * 128 + 128, 32) lanes 128) {
// CHECK-NEXT:     [[a:%.*]] = kernel.load %x[{{.*}}] : vector<128xf32>
// CHECK-NEXT:     [[b:%.*]] = kernel.load %x[{{.*}}] : vector<128xf32>
// CHECK-NEXT:     [[top:%.*]] = elem.maximum [[a]], [[b]]
// CHECK-NEXT:     [[c:%.*]] = kernel.load
// CHECK-NEXT:     [[d:%.*]] = kernel.load
// CHECK-NEXT:     [[middle:%.*]] = elem.maximum [[c]], [[d]]
// CHECK-NEXT:     [[first:%.*]] = elem.maximum [[top]], [[middle]]
// CHECK-NEXT:     [[e:%.*]] = kernel.load
// CHECK-NEXT:     [[f:%.*]] = kernel.load
// CHECK-NEXT:     [[bottom:%.*]] = elem.maximum [[e]], [[f]]
// CHECK-NEXT:     [[second:%.*]] = elem.maximum [[middle]], [[bottom]]
// CHECK-NEXT:     kernel.store [[first]], %o
// CHECK-NEXT:     kernel.store [[second]], %o
// CHECK-NEXT:   }
func.func @main(%x : tensor<4x9x9xf32>) -> tensor<4x8x8xf32> {
  %y = loops.nest (%i : 4, %j : 8, %k : 8) outs(%o : tensor<4x8x8xf32>) schedule #loops.schedule<slide = 2> {
    %m = loops.reduce maximum (%r : 2, %s : 2) {
      %a = loops.load %x[%i, %j + %r, %k + %s] : tensor<4x9x9xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i, %j, %k] : tensor<4x8x8xf32>
  }
  func.return %y : tensor<4x8x8xf32>
}

// -----

// Near miss: windows that only touch share nothing.
// CHECK:      kernel.func @max_0
// CHECK:      kernel.reduce maximum
func.func @main(%x : tensor<4x16x16xf32>) -> tensor<4x8x8xf32> {
  %y = loops.nest (%i : 4, %j : 8, %k : 8) outs(%o : tensor<4x8x8xf32>) schedule #loops.schedule<slide = 2> {
    %m = loops.reduce maximum (%r : 2, %s : 2) {
      %a = loops.load %x[%i, %j * 2 + %r, %k * 2 + %s] : tensor<4x16x16xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i, %j, %k] : tensor<4x8x8xf32>
  }
  func.return %y : tensor<4x8x8xf32>
}

// -----

// Edge: no images at all, and a size that is not known.
// CHECK:      kernel.func @max_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [0, 4]
// CHECK:      kernel.func @max_1
// CHECK:      kernel.reduce maximum
func.func @main(%x : tensor<0x9x9xf32>, %z : tensor<4x?x9xf32, #aten.layout<sizes = [4, s0, 9]>>) -> (tensor<0x8x8xf32>, tensor<4x?x8xf32, #aten.layout<sizes = [4, s0 - 1, 8]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %y = loops.nest (%i : 0, %j : 8, %k : 8) outs(%o : tensor<0x8x8xf32>) schedule #loops.schedule<slide = 2> {
    %m = loops.reduce maximum (%r : 2, %s : 2) {
      %a = loops.load %x[%i, %j + %r, %k + %s] : tensor<0x9x9xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i, %j, %k] : tensor<0x8x8xf32>
  }
  %w = loops.nest (%i : 4, %j : s0 - 1, %k : 8) outs(%o : tensor<4x?x8xf32, #aten.layout<sizes = [4, s0 - 1, 8]>>) schedule #loops.schedule<slide = 2> {
    %m = loops.reduce maximum (%r : 2, %s : 2) {
      %a = loops.load %z[%i, %j + %r, %k + %s] : tensor<4x?x9xf32, #aten.layout<sizes = [4, s0, 9]>>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i, %j, %k] : tensor<4x?x8xf32, #aten.layout<sizes = [4, s0 - 1, 8]>>
  }
  func.return %y, %w : tensor<0x8x8xf32>, tensor<4x?x8xf32, #aten.layout<sizes = [4, s0 - 1, 8]>>
}

// -----

// Rows of the source begin where vectors do: a lane has four neighbouring windows. Rows of 11 windows have 12 places for
// them, and what is beyond the end is neither loaded nor stored: of the fourth, in the last group.
// CHECK:      kernel.func @max_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [1, 4], target = cuda
// CHECK:        kernel.for (%k = %p * 128 to min(%p * 128 + 128, 12) lanes 128) {
// CHECK:          [[group:%.*]] = kernel.index [%k mod 3] : vector<128xi64>
// CHECK:          [[inside:%.*]] = elem.lt [[group]], %{{.*}} : vector<128xi64>
// CHECK:          kernel.load %x[{{.*}} * 4 + 4] if [[inside]] else
// CHECK:          kernel.store %{{.*}}, %o[{{.*}} * 4] : vector<128xf32>
// CHECK-NEXT:     kernel.store %{{.*}}, %o[{{.*}} * 4 + 1] : vector<128xf32>
// CHECK-NEXT:     kernel.store %{{.*}}, %o[{{.*}} * 4 + 2] : vector<128xf32>
// CHECK-NEXT:     kernel.store %{{.*}}, %o[{{.*}} * 4 + 3] if [[inside]] : vector<128xf32>
func.func @main(%x : tensor<4x9x12xf32>) -> tensor<4x8x11xf32> {
  %y = loops.nest (%i : 4, %j : 8, %k : 11) outs(%o : tensor<4x8x11xf32>) schedule #loops.schedule<slide = 2> {
    %m = loops.reduce maximum (%r : 2, %s : 2) {
      %a = loops.load %x[%i, %j + %r, %k + %s] : tensor<4x9x12xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i, %j, %k] : tensor<4x8x11xf32>
  }
  func.return %y : tensor<4x8x11xf32>
}
