// RUN: cuesta-opt %s -p "loops-to-kernel{target=cuda}" --split-input-file
// SLOW

// What transposes rows that begin at no sector has long pieces of them; other rows are squares.
// CHECK: kernel.func @copy_0({{.*}} warps = 8,
// CHECK:   lanes 32
// CHECK:   lanes 128
// CHECK: kernel.func @copy_1({{.*}} warps = 4,
// CHECK:   lanes 32
// CHECK:   lanes 32
func.func @main(%x : tensor<1003x1001xf32>, %w : tensor<1024x1024xf32>) -> (tensor<1001x1003xf32>, tensor<1024x1024xf32>) {
  %y = loops.nest (%i : 1001, %j : 1003) outs(%o : tensor<1001x1003xf32>) {
    %a = loops.load %x[%j, %i] : tensor<1003x1001xf32>
    loops.store %a, %o[%i, %j] : tensor<1001x1003xf32>
  }
  %z = loops.nest (%i : 1024, %j : 1024) outs(%o : tensor<1024x1024xf32>) {
    %a = loops.load %w[%j, %i] : tensor<1024x1024xf32>
    loops.store %a, %o[%i, %j] : tensor<1024x1024xf32>
  }
  func.return %y, %z : tensor<1001x1003xf32>, tensor<1024x1024xf32>
}

// -----

// Short columns are scanned in one tile.
// CHECK: kernel.func @cumsum_0({{.*}} warps = 4,
// CHECK:   kernel.scan ({{.*}} = 0 to 23 lanes 32
func.func @main(%x : tensor<23x4096xf32>) -> tensor<23x4096xf32> {
  %y = loops.nest (%i : 4096) outs(%o : tensor<23x4096xf32>) {
    loops.scan (%j : 23) {
      %a = loops.load %x[%j, %i] : tensor<23x4096xf32>
      %r = loops.running sum %a : f32
      loops.store %r, %o[%j, %i] : tensor<23x4096xf32>
    }
  }
  func.return %y : tensor<23x4096xf32>
}

// -----

// Columns that are read once are tiles of 32, and of 16 where a place is looked for, with eight elements a thread, and with
// registers for all that a round loads. What is read again stays in registers, as long as there are such: 64 elements a thread.
// No larger than it takes to be tiled so: the test interprets all of it.
// CHECK: kernel.func @sum_0({{.*}} warps = 8, index = 32, registers = 128>
// CHECK:   lanes 32)
// CHECK:   kernel.reduce sum ({{.*}} = 0 to 1024 lanes 64 dim 1)
// CHECK: kernel.func @argmax_1({{.*}} warps = 4, index = 32, registers = 128>
// CHECK:   lanes 16)
// CHECK:   kernel.reduce argmax ({{.*}} = 0 to 128 lanes 64 dim 1)
// CHECK: kernel.func @{{.*}}_2({{.*}} warps = 8,
// CHECK:   lanes 16)
// CHECK:   kernel.reduce maximum ({{.*}} = 0 to 1024 lanes 1024 dim 1)
// CHECK:   kernel.reduce sum ({{.*}} = 0 to 1024 lanes 1024 dim 1)
// CHECK: kernel.func @{{.*}}_3({{.*}} warps = 16,
// CHECK:   lanes 32)
// CHECK:   kernel.reduce maximum ({{.*}} = 0 to 8192 lanes 256 dim 1)
func.func @main(%x : tensor<1024x32768xf32>, %q : tensor<128x32768xf32>, %r : tensor<1024x8192xf32>, %w : tensor<8192x4096xf32>) -> (tensor<32768xf32>, tensor<32768xi64>, tensor<8192xf32>, tensor<4096xf32>) {
  %y = loops.nest (%i : 32768) outs(%o : tensor<32768xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %x[%j, %i] : tensor<1024x32768xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<32768xf32>
  }
  %z = loops.nest (%i : 32768) outs(%o : tensor<32768xi64>) {
    %s, %p = loops.reduce argmax (%j : 128) {
      %a = loops.load %q[%j, %i] : tensor<128x32768xf32>
      loops.yield %a : f32
    } : f32, i64
    loops.store %p, %o[%i] : tensor<32768xi64>
  }
  %u = loops.nest (%i : 8192) outs(%o : tensor<8192xf32>) {
    %m = loops.reduce maximum (%j : 1024) {
      %a = loops.load %r[%j, %i] : tensor<1024x8192xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %r[%j, %i] : tensor<1024x8192xf32>
      %b = elem.sub %a, %m : f32
      loops.yield %b : f32
    } : f32
    loops.store %s, %o[%i] : tensor<8192xf32>
  }
  %v = loops.nest (%i : 4096) outs(%o : tensor<4096xf32>) {
    %m = loops.reduce maximum (%j : 8192) {
      %a = loops.load %w[%j, %i] : tensor<8192x4096xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 8192) {
      %a = loops.load %w[%j, %i] : tensor<8192x4096xf32>
      %b = elem.sub %a, %m : f32
      loops.yield %b : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4096xf32>
  }
  func.return %y, %z, %u, %v : tensor<32768xf32>, tensor<32768xi64>, tensor<8192xf32>, tensor<4096xf32>
}
