// RUN: cuesta-opt %s --machine "processors=4" -p "choose-parts{target=cuda},split-reductions{target=cuda},add-counters,loops-to-kernel{target=cuda},hint-loads" --split-input-file

// By hand: programs that have a part of a row each and meet. What they count in is 0 at first: 3 groups, 3 · 4 programs.
// What the row gives besides (%l), its first part stores.
// CHECK:      kernel.func @{{.*}} outs(%{{.*}}: !kernel.ptr<i32>) schedule
// CHECK:        elem.constant 0 : vector<16xi32>
// CHECK:      kernel.func @{{.*}} updates 1 schedule #kernel.schedule<grid = [3, 4], target = cuda, warps = 1, index = 32, registers = 64> {
// CHECK:        kernel.reduce maximum
// CHECK:          kernel.load %x[%p * 101 + %p_1 * 32 + %j] if %{{.*}} else %{{.*}} : vector<32xf32> evict_first
// CHECK:        kernel.reduce minimum
// CHECK:        kernel.store %m
// CHECK:        kernel.store %s
// CHECK:        kernel.meet %count last 1
// CHECK:        kernel.reduce maximum (%{{.*}} = 0 to 4 lanes 4) {
// CHECK:        kernel.reduce minimum (%{{.*}} = 0 to 4 lanes 4) {
// CHECK:        kernel.store %{{.*}}, %{{.*}}[%p] if
// CHECK:        kernel.for (%j = 0 to 32 lanes 32) {
// CHECK:          kernel.store %{{.*}}, %{{.*}}[%p * 101 + %p_1 * 32 + %j] if
// CHECK:      func.func @main
// CHECK:        %count = kernel.launch @{{.*}}() : () -> (tensor<15xi32>)
// CHECK:        kernel.launch @{{.*}}(%x, %count)
func.func @main(%x : tensor<3x101xf32>) -> (tensor<3x101xf32>, tensor<3xf32>) {
  %y, %z = loops.nest (%i : 3) outs(%o : tensor<3x101xf32>, %l : tensor<3xf32>) schedule #loops.schedule<part = 32, cooperative = 1> {
    %m = loops.reduce maximum (%j : 101) {
      %a = loops.load %x[%i, %j] : tensor<3x101xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce minimum (%j : 101) {
      %a = loops.load %x[%i, %j] : tensor<3x101xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %l[%i] : tensor<3xf32>
    loops.for (%j : 101) {
      %a = loops.load %x[%i, %j] : tensor<3x101xf32>
      %b = elem.sub %a, %m : f32
      %d = elem.div %b, %s : f32
      loops.store %d, %o[%i, %j] : tensor<3x101xf32>
    }
  }
  func.return %y, %z : tensor<3x101xf32>, tensor<3xf32>
}

// -----
// A meeting written by hand, along two axes.
// CHECK:      kernel.func @{{.*}} updates 1 schedule #kernel.schedule<grid = [5, 2, 3], target = cuda
// CHECK:        kernel.meet %count last 2
func.func @main(%x : tensor<5x2x3x8xf32>) -> tensor<5x2x3x8xf32> {
  %y, %t = loops.nest (%i : 5, %p : 2, %q : 3) outs(%o : tensor<5x2x3x8xf32>, %u : tensor<5x3x2xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %p, %q, %j] : tensor<5x2x3x8xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %u[%i, %q, %p] : tensor<5x3x2xf32>
    loops.meet last 2
    %v = loops.reduce maximum (%k : 2, %l : 3) {
      %a = loops.load %u[%i, %l, %k] : tensor<5x3x2xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 8) {
      %a = loops.load %x[%i, %p, %q, %j] : tensor<5x2x3x8xf32>
      %b = elem.sub %a, %v : f32
      loops.store %b, %o[%i, %p, %q, %j] : tensor<5x2x3x8xf32>
    }
  }
  func.return %y : tensor<5x2x3x8xf32>
}

// -----
// Near miss: rows of one tile stay whole; nothing in the kernel meets.
// CHECK-NOT:  kernel.meet
// CHECK:      func.func @main
func.func @main(%x : tensor<640x1024xf32>) -> tensor<640x1024xf32> {
  %y = loops.nest (%i : 640) outs(%o : tensor<640x1024xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %x[%i, %j] : tensor<640x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 1024) {
      %a = loops.load %x[%i, %j] : tensor<640x1024xf32>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%i, %j] : tensor<640x1024xf32>
    }
  }
  func.return %y : tensor<640x1024xf32>
}
