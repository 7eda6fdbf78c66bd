// RUN: cuesta-opt %s --split-input-file -p fuse-nests
// SLOW

// The sums of the rows of a product are a number each. Computed where they are read, they would keep the product in
// memory while another one is made.
// CHECK-LABEL: func.func @main
// CHECK:        %s = loops.nest (%i : 2048) outs(
// CHECK:        loops.extern
// CHECK:        %z = loops.nest (%i : 2048, %j : 4096) outs(
func.func @main(%a : tensor<2048x8xf32>, %w : tensor<8x4096xf32>, %v : tensor<8x4096xf32>) -> tensor<2048x4096xf32> {
  %x = loops.extern pure "aten.mm.default"(%a, %w) : (tensor<2048x8xf32>, tensor<8x4096xf32>) -> tensor<2048x4096xf32>
  %s = loops.nest (%i : 2048) outs(%o : tensor<2048xf32>) {
    %t = loops.reduce sum (%j : 4096) {
      %l = loops.load %x[%i, %j] : tensor<2048x4096xf32>
      loops.yield %l : f32
    } : f32
    loops.store %t, %o[%i] : tensor<2048xf32>
  }
  %y = loops.extern pure "aten.mm.default"(%a, %v) : (tensor<2048x8xf32>, tensor<8x4096xf32>) -> tensor<2048x4096xf32>
  %z = loops.nest (%i : 2048, %j : 4096) outs(%o : tensor<2048x4096xf32>) {
    %l = loops.load %y[%i, %j] : tensor<2048x4096xf32>
    %m = loops.load %s[%i] : tensor<2048xf32>
    %n = elem.add %l, %m : f32
    loops.store %n, %o[%i, %j] : tensor<2048x4096xf32>
  }
  func.return %z : tensor<2048x4096xf32>
}

// -----
// Read by the reader as well, it is kept anyway.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   loops.extern
// CHECK-NEXT:   loops.extern
// CHECK-NEXT:   %z = loops.nest (%i : 2048) outs(
func.func @main(%a : tensor<2048x8xf32>, %w : tensor<8x4096xf32>, %v : tensor<8x4096xf32>) -> tensor<2048x4096xf32> {
  %x = loops.extern pure "aten.mm.default"(%a, %w) : (tensor<2048x8xf32>, tensor<8x4096xf32>) -> tensor<2048x4096xf32>
  %s = loops.nest (%i : 2048) outs(%o : tensor<2048xf32>) {
    %t = loops.reduce sum (%j : 4096) {
      %l = loops.load %x[%i, %j] : tensor<2048x4096xf32>
      loops.yield %l : f32
    } : f32
    loops.store %t, %o[%i] : tensor<2048xf32>
  }
  %y = loops.extern pure "aten.mm.default"(%a, %v) : (tensor<2048x8xf32>, tensor<8x4096xf32>) -> tensor<2048x4096xf32>
  %z = loops.nest (%i : 2048, %j : 4096) outs(%o : tensor<2048x4096xf32>) {
    %k = loops.load %x[%i, %j] : tensor<2048x4096xf32>
    %l = loops.load %y[%i, %j] : tensor<2048x4096xf32>
    %m = loops.load %s[%i] : tensor<2048xf32>
    %n = elem.add %l, %m : f32
    %r = elem.mul %k, %n : f32
    loops.store %r, %o[%i, %j] : tensor<2048x4096xf32>
  }
  func.return %z : tensor<2048x4096xf32>
}

// -----
// With no call between, nothing needs the memory meanwhile.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   loops.extern
// CHECK-NEXT:   %z = loops.nest (%i : 2048) outs(
func.func @main(%a : tensor<2048x8xf32>, %w : tensor<8x4096xf32>, %v : tensor<2048x4096xf32>) -> tensor<2048x4096xf32> {
  %x = loops.extern pure "aten.mm.default"(%a, %w) : (tensor<2048x8xf32>, tensor<8x4096xf32>) -> tensor<2048x4096xf32>
  %s = loops.nest (%i : 2048) outs(%o : tensor<2048xf32>) {
    %t = loops.reduce sum (%j : 4096) {
      %l = loops.load %x[%i, %j] : tensor<2048x4096xf32>
      loops.yield %l : f32
    } : f32
    loops.store %t, %o[%i] : tensor<2048xf32>
  }
  %z = loops.nest (%i : 2048, %j : 4096) outs(%o : tensor<2048x4096xf32>) {
    %l = loops.load %v[%i, %j] : tensor<2048x4096xf32>
    %m = loops.load %s[%i] : tensor<2048xf32>
    %n = elem.add %l, %m : f32
    loops.store %n, %o[%i, %j] : tensor<2048x4096xf32>
  }
  func.return %z : tensor<2048x4096xf32>
}
