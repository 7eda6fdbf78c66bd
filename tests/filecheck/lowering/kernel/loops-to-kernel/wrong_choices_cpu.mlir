// RUN: not cuesta-opt %s -p "loops-to-kernel" --split-input-file

// CHECK: warps means nothing on a processor; there are lanes, rows, prefetch, part, unroll, parallel
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<warps = 8> {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----
// CHECK: no scheduling choice is called lane; there are lanes, rows, prefetch, part, unroll, parallel
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<lane = 8> {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----
// CHECK: its schedule says lanes = 6, which is not a power of 2
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<lanes = 6> {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----
// CHECK: its schedule says parallel = 2, which is not 0 or 1
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<parallel = 2> {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----
// CHECK: its schedule says lanes = 4096; here there are 128 at most
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<lanes = 4096> {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----
// CHECK: its schedule says unroll = 0, which is not a positive number
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<unroll = 0> {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----
// A running product has its order, and its rounding.
// CHECK: its schedule says lanes = 4, but none of its axes can have lanes
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest () outs(%o : tensor<64xf32>) schedule #loops.schedule<lanes = 4> {
    loops.scan (%i : 64) {
      %a = loops.load %x[%i] : tensor<64xf32>
      %s = loops.running prod %a : f32
      loops.store %s, %o[%i] : tensor<64xf32>
    }
  }
  func.return %y : tensor<64xf32>
}

// -----
// CHECK: its schedule says rows = 4, but it has no rows whose points are reduced in lanes
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) schedule #loops.schedule<rows = 4> {
    %a = loops.load %x[%i] : tensor<64xf32>
    loops.store %a, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}
