// RUN: cuesta-opt %s --machine "processors=4" -p "loops-to-kernel{target=cuda},hint-loads" --split-input-file
// SLOW

// By hand: a row in a loop over tiles, read twice, is to stay in the cache until it is read for the last time. The
// weights, which all rows read, stay there anyway.
// CHECK:      kernel.reduce sum
// CHECK:        kernel.load %x[{{.*}}] : vector<16384xf32> evict_last
// CHECK:      kernel.for
// CHECK:        kernel.load %x[{{.*}}] : vector<16384xf32> evict_first
// CHECK:        kernel.load %w[{{.*}}] : vector<16384xf32>{{$}}
func.func @main(%x : tensor<64x65536xf32>, %w : tensor<65536xf32>) -> tensor<64x65536xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64x65536xf32>) schedule #loops.schedule<warps = 16, reread = 0> {
    %s = loops.reduce sum (%j : 65536) {
      %a = loops.load %x[%i, %j] : tensor<64x65536xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 65536) {
      %a = loops.load %x[%i, %j] : tensor<64x65536xf32>
      %b = loops.load %w[%j] : tensor<65536xf32>
      %c = elem.sub %a, %s : f32
      %d = elem.mul %c, %b : f32
      loops.store %d, %o[%i, %j] : tensor<64x65536xf32>
    }
  }
  func.return %y : tensor<64x65536xf32>
}

// -----
// By hand: what is read once here is read again by the next kernel.
// CHECK:      kernel.load %x[{{.*}} evict_last
func.func @main(%x : tensor<200000xf32>) -> tensor<200000xf32> {
  %y = loops.nest (%i : 200000) outs(%o : tensor<200000xf32>) schedule #loops.schedule<reread = 1> {
    %a = loops.load %x[%i] : tensor<200000xf32>
    %b = elem.abs %a : f32
    loops.store %b, %o[%i] : tensor<200000xf32>
  }
  func.return %y : tensor<200000xf32>
}

// -----
// Near misses: nothing is said, and a gather reads anywhere.
// CHECK-NOT:  evict
// CHECK:      func.func @main
func.func @main(%x : tensor<640x1024xf32>, %k : tensor<640xi64>) -> (tensor<640x1024xf32>, tensor<640x1024xf32>) {
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
  %z = loops.nest (%i : 640, %j : 1024) outs(%o : tensor<640x1024xf32>) schedule #loops.schedule<reread = 0> {
    %n = loops.load %k[%i] : tensor<640xi64>
    %m = loops.bound %n, 640 : i64
    %a = loops.load %x[%m, %j] : tensor<640x1024xf32>
    loops.store %a, %o[%i, %j] : tensor<640x1024xf32>
  }
  func.return %y, %z : tensor<640x1024xf32>, tensor<640x1024xf32>
}
