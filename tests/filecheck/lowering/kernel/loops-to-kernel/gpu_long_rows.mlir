// RUN: cuesta-opt %s -p "choose-parts{target=cuda},split-reductions{target=cuda},add-counters,loops-to-kernel{target=cuda},hint-loads"
// SLOW

// Rows of 64 KiB that are read more than once are read anew, in tiles of which a processor has several: from the second
// time on from the cache.
// CHECK:     kernel.func @log_softmax_0({{.*}} warps = 16,
// CHECK:       kernel.reduce maximum (%j = 0 to 32768 lanes 4096)
// CHECK:       kernel.reduce sum (%k = 0 to 32768 lanes 4096)

// Near misses: of f32 the second read is as dear as the tile.
// CHECK:     kernel.func @log_softmax_1
// CHECK:       kernel.reduce sum (%k = 0 to 32768 lanes 32768)
// CHECK:     kernel.func @softmax_2
// CHECK:       kernel.for (%l = 0 to 32768 lanes 4096)

// What is reduced in one walk has tiles of few elements for each thread.
// CHECK:     kernel.func @max_3({{.*}} warps = 32,
// CHECK:       kernel.reduce maximum (%j = 0 to 32768 lanes 4096)
func.func @main(%x : tensor<300x32768xbf16>, %w : tensor<300x32768xf32>) -> (tensor<300xf32>, tensor<300xf32>, tensor<300x32768xbf16>, tensor<300xbf16>) {
  %y = loops.nest (%i : 300) outs(%o : tensor<300xf32>) {
    %m = loops.reduce maximum (%j : 32768) {
      %a = loops.load %x[%i, %j] : tensor<300x32768xbf16>
      %b = elem.convert %a : bf16 to f32
      loops.yield %b : f32
    } : f32
    %s = loops.reduce sum (%k : 32768) {
      %a1 = loops.load %x[%i, %k] : tensor<300x32768xbf16>
      %b1 = elem.convert %a1 : bf16 to f32
      %c = elem.sub %b1, %m : f32
      %d = elem.exp %c : f32
      loops.yield %d : f32
    } : f32
    %t = elem.log %s : f32
    loops.store %t, %o[%i] : tensor<300xf32>
  }
  %z = loops.nest (%i : 300) outs(%o : tensor<300xf32>) {
    %m = loops.reduce maximum (%j : 32768) {
      %a = loops.load %w[%i, %j] : tensor<300x32768xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%k : 32768) {
      %a1 = loops.load %w[%i, %k] : tensor<300x32768xf32>
      %c = elem.sub %a1, %m : f32
      %d = elem.exp %c : f32
      loops.yield %d : f32
    } : f32
    %t = elem.log %s : f32
    loops.store %t, %o[%i] : tensor<300xf32>
  }
  %v = loops.nest (%i : 300) outs(%o : tensor<300x32768xbf16>) {
    %m = loops.reduce maximum (%j : 32768) {
      %a = loops.load %x[%i, %j] : tensor<300x32768xbf16>
      %b = elem.convert %a : bf16 to f32
      loops.yield %b : f32
    } : f32
    %s = loops.reduce sum (%k : 32768) {
      %a1 = loops.load %x[%i, %k] : tensor<300x32768xbf16>
      %b1 = elem.convert %a1 : bf16 to f32
      %c = elem.sub %b1, %m : f32
      %d = elem.exp %c : f32
      loops.yield %d : f32
    } : f32
    loops.for (%l : 32768) {
      %a2 = loops.load %x[%i, %l] : tensor<300x32768xbf16>
      %b2 = elem.convert %a2 : bf16 to f32
      %c2 = elem.sub %b2, %m : f32
      %d2 = elem.exp %c2 : f32
      %e = elem.div %d2, %s : f32
      %f = elem.convert %e : f32 to bf16
      loops.store %f, %o[%i, %l] : tensor<300x32768xbf16>
    }
  }
  %u = loops.nest (%i : 300) outs(%o : tensor<300xbf16>) {
    %m = loops.reduce maximum (%j : 32768) {
      %a = loops.load %x[%i, %j] : tensor<300x32768xbf16>
      loops.yield %a : bf16
    } : bf16
    loops.store %m, %o[%i] : tensor<300xbf16>
  }
  func.return %y, %z, %v, %u : tensor<300xf32>, tensor<300xf32>, tensor<300x32768xbf16>, tensor<300xbf16>
}
