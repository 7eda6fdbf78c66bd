// RUN: cuesta-opt %s -p "choose-parts" --split-input-file

// CHECK:      outs(%o: tensor<f32>) schedule #loops.schedule<part = 4096> {
func.func @main(%x : tensor<131072xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 131072) {
      %a = loops.load %x[%j] : tensor<131072xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// Near misses: few points; enough parallel ones; a schedule said by hand.
// CHECK-NOT:  part
func.func @main(%x : tensor<4096xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 4096) {
      %a = loops.load %x[%j] : tensor<4096xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// CHECK-NOT:  part
func.func @main(%x : tensor<16x65536xf32>) -> tensor<16xf32> {
  %y = loops.nest (%i : 16) outs(%o : tensor<16xf32>) {
    %s = loops.reduce sum (%j : 65536) {
      %a = loops.load %x[%i, %j] : tensor<16x65536xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<16xf32>
  }
  func.return %y : tensor<16xf32>
}

// -----
// CHECK-NOT:  part
func.func @main(%x : tensor<131072xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<unroll = 2> {
    %s = loops.reduce sum (%j : 131072) {
      %a = loops.load %x[%j] : tensor<131072xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// No fair number of equal parts: 65537 is a prime.
// CHECK-NOT:  part
func.func @main(%x : tensor<65537xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 65537) {
      %a = loops.load %x[%j] : tensor<65537xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// No points.
// CHECK-NOT:  part
func.func @main(%x : tensor<0xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 0) {
      %a = loops.load %x[%j] : tensor<0xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}
