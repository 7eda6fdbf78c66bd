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

// Full tiles of columns of 32 bits have 16 warps, of 16 bits eight.
// CHECK: kernel.func @sum_0({{.*}} warps = 16,
// CHECK: kernel.func @sum_1({{.*}} warps = 8,
func.func @main(%x : tensor<1024x8192xf32>, %w : tensor<1024x8192xbf16>) -> (tensor<8192xf32>, tensor<8192xf32>) {
  %y = loops.nest (%i : 8192) outs(%o : tensor<8192xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %x[%j, %i] : tensor<1024x8192xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<8192xf32>
  }
  %z = loops.nest (%i : 8192) outs(%o : tensor<8192xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %w[%j, %i] : tensor<1024x8192xbf16>
      %b = elem.convert %a : bf16 to f32
      loops.yield %b : f32
    } : f32
    loops.store %s, %o[%i] : tensor<8192xf32>
  }
  func.return %y, %z : tensor<8192xf32>, tensor<8192xf32>
}
