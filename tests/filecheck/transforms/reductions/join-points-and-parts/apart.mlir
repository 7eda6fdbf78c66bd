// RUN: cuesta-opt %s -p "join-points-and-parts{target=cuda}" --split-input-file

// Near miss: it stores across what the parts read in order.
// CHECK:      loops.nest (%{{.*}} : 8) outs(%{{.*}}: tensor<8xf32>) {
// CHECK:      loops.nest (%{{.*}} : 8, %{{.*}} : 4096)
func.func @main(%x : tensor<8x4096xf32>) -> (tensor<8xf32>, tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>) {
  %t = loops.nest (%p : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %a = loops.load %x[%p, %j] : tensor<8x4096xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<8xf32>
  }
  %y = loops.nest (%i : 8, %k : 4096) outs(%o : tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>) {
    %a = loops.load %x[%i, %k] : tensor<8x4096xf32>
    loops.store %a, %o[%i, %k] : tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>
  }
  func.return %t, %y : tensor<8xf32>, tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>
}

// -----
// Near miss: it needs the sum.
// CHECK:      loops.nest (%{{.*}} : 8) outs(%{{.*}}: tensor<8xf32>) {
// CHECK:      loops.nest (%{{.*}} : 8, %{{.*}} : 4096)
func.func @main(%x : tensor<8x4096xf32>) -> (tensor<8xf32>, tensor<8x4096xf32>) {
  %t = loops.nest (%p : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %a = loops.load %x[%p, %j] : tensor<8x4096xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<8xf32>
  }
  %y = loops.nest (%i : 8, %k : 4096) outs(%o : tensor<8x4096xf32>) {
    %a = loops.load %x[%i, %k] : tensor<8x4096xf32>
    %b = loops.load %t[%i] : tensor<8xf32>
    %c = elem.sub %a, %b : f32
    loops.store %c, %o[%i, %k] : tensor<8x4096xf32>
  }
  func.return %t, %y : tensor<8xf32>, tensor<8x4096xf32>
}

// -----
// Near miss: the parts read a place twice, and another not at all.
// CHECK:      loops.nest (%{{.*}} : 8) outs(%{{.*}}: tensor<8xf32>) {
// CHECK:      loops.nest (%{{.*}} : 32768)
func.func @main(%x : tensor<32768xf32>) -> (tensor<8xf32>, tensor<32768xf32>) {
  %t = loops.nest (%p : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %a = loops.load %x[%p * 2048 + %j] : tensor<32768xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<8xf32>
  }
  %y = loops.nest (%i : 32768) outs(%o : tensor<32768xf32>) {
    %a = loops.load %x[%i] : tensor<32768xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i] : tensor<32768xf32>
  }
  func.return %t, %y : tensor<8xf32>, tensor<32768xf32>
}

// -----
// Near miss: a mask leaves out more than what there is not.
// CHECK:      loops.nest (%{{.*}} : 8) outs(%{{.*}}: tensor<8xf32>) {
// CHECK:      loops.nest (%{{.*}} : 32768)
func.func @main(%x : tensor<32768xf32>) -> (tensor<8xf32>, tensor<32768xf32>) {
  %t = loops.nest (%p : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %n = loops.index [%p * 4096 + %j] : i32
      %l = elem.constant 32767 : i32
      %m = elem.lt %n, %l : i32
      %z = elem.constant 0.0 : f32
      %a = loops.load %x[%p * 4096 + %j] if %m else %z : tensor<32768xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<8xf32>
  }
  %y = loops.nest (%i : 32768) outs(%o : tensor<32768xf32>) {
    %a = loops.load %x[%i] : tensor<32768xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i] : tensor<32768xf32>
  }
  func.return %t, %y : tensor<8xf32>, tensor<32768xf32>
}

// -----
// Near misses: another nest needs it before the parts; a library call between the two.
// CHECK:      loops.nest (%{{.*}} : 32768)
// CHECK:      loops.nest ()
// CHECK:      loops.nest (%{{.*}} : 8)
// CHECK:      loops.extern
// CHECK:      loops.nest (%{{.*}} : 32768)
func.func @main(%x : tensor<32768xf32>, %w : tensor<4x4xf32>) -> (tensor<8xf32>, tensor<f32>, tensor<4x4xf32>, tensor<32768xf32>) {
  %y = loops.nest (%i : 32768) outs(%o : tensor<32768xf32>) {
    %a = loops.load %x[%i] : tensor<32768xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i] : tensor<32768xf32>
  }
  %f = loops.nest () outs(%o : tensor<f32>) {
    %a = loops.load %y[7] : tensor<32768xf32>
    loops.store %a, %o[] : tensor<f32>
  }
  %t = loops.nest (%p : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce sum (%j : 4096) {
      %a = loops.load %x[%p * 4096 + %j] : tensor<32768xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<8xf32>
  }
  %m = loops.extern "aten.mm.default"(%w, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = loops.nest (%i : 32768) outs(%o : tensor<32768xf32>) {
    %a = loops.load %x[%i] : tensor<32768xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<32768xf32>
  }
  func.return %t, %f, %m, %v : tensor<8xf32>, tensor<f32>, tensor<4x4xf32>, tensor<32768xf32>
}

// -----
// Near misses: rows of a few points, and long ones that are few.
// CHECK:      loops.nest (%{{.*}} : 512)
// CHECK:      loops.nest (%{{.*}} : 2)
// CHECK:      loops.nest (%{{.*}} : 512, %{{.*}} : 64)
// CHECK:      loops.nest (%{{.*}} : 2, %{{.*}} : 16384)
func.func @main(%x : tensor<512x64xf32>, %w : tensor<2x16384xf32>) -> (tensor<512xf32>, tensor<2xf32>, tensor<512x64xf32>, tensor<2x16384xf32>) {
  %t = loops.nest (%p : 512) outs(%o : tensor<512xf32>) {
    %s = loops.reduce sum (%j : 64) {
      %a = loops.load %x[%p, %j] : tensor<512x64xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<512xf32>
  }
  %u = loops.nest (%p : 2) outs(%o : tensor<2xf32>) {
    %s = loops.reduce sum (%j : 16384) {
      %a = loops.load %w[%p, %j] : tensor<2x16384xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<2xf32>
  }
  %y = loops.nest (%i : 512, %k : 64) outs(%o : tensor<512x64xf32>) {
    %a = loops.load %x[%i, %k] : tensor<512x64xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i, %k] : tensor<512x64xf32>
  }
  %v = loops.nest (%i : 2, %k : 16384) outs(%o : tensor<2x16384xf32>) {
    %a = loops.load %w[%i, %k] : tensor<2x16384xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i, %k] : tensor<2x16384xf32>
  }
  func.return %t, %u, %y, %v : tensor<512xf32>, tensor<2xf32>, tensor<512x64xf32>, tensor<2x16384xf32>
}
