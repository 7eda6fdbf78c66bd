// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// Near miss: between the two stands a call that takes from the one and gives to the other.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %c = loops.extern pure "aten.cumsum.default"(%a, 0)
// CHECK-NEXT:   %y = loops.nest (%i : 4, %j : 8) outs(%o: tensor<4x8xf32>) {
// CHECK-NEXT:     %u = loops.load %a[%i]
// CHECK-NEXT:     %t = loops.load %c[%i]
// CHECK-NEXT:     %v = elem.add %u, %t
// CHECK-NEXT:     loops.store %v, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>, %w : tensor<1x4xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %c = loops.extern pure "aten.cumsum.default"(%a, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %u = loops.load %a[%i] : tensor<4xf32>
    %t = loops.load %c[%i] : tensor<4xf32>
    %v = elem.add %u, %t : f32
    loops.store %v, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %a, %y : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// A call that takes from the one only: the result stands where the producer stood, the view of it before its first user.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4x1xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i, 0]
// CHECK-NEXT:     loops.for (%1 : 8) {
// CHECK-NEXT:       %2 = loops.load %x[%i, %1]
// CHECK-NEXT:       %3 = elem.sub %2, %s
// CHECK-NEXT:       loops.store %3, %0[%i, %1]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = loops.view %a by (d0) -> (d0, 0) : tensor<4x1xf32> to tensor<4xf32>
// CHECK-NEXT:   %c = loops.extern pure "aten.cumsum.default"(%b, 0)
// CHECK-NEXT:   func.return %c, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x1xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i, 0] : tensor<4x1xf32>
  }
  %b = loops.view %a by (d0) -> (d0, 0) : tensor<4x1xf32> to tensor<4xf32>
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %u = loops.load %a[%i, 0] : tensor<4x1xf32>
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.sub %v, %u : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  %c = loops.extern pure "aten.cumsum.default"(%b, 0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c, %y : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// Views of views sink together and stay in order.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i, %j]
// CHECK-NEXT:     %b = elem.neg %a
// CHECK-NEXT:     loops.store %b, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %w = loops.view %x by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   %v = loops.view %w by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   %u = loops.view %w by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   %m = loops.extern pure "aten.mm.default"(%v, %u)
// CHECK-NEXT:   func.return %m, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %w = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x4xf32> to tensor<4x4xf32, #aten.layout<strides = [1, 4]>>
  %v = loops.view %w by (d0, d1) -> (d1, d0) : tensor<4x4xf32, #aten.layout<strides = [1, 4]>> to tensor<4x4xf32>
  %u = loops.view %w by (d0, d1) -> (d1, d0) : tensor<4x4xf32, #aten.layout<strides = [1, 4]>> to tensor<4x4xf32>
  %y = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x4xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x4xf32>
  }
  %m = loops.extern pure "aten.mm.default"(%v, %u) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %m, %y : tensor<4x4xf32>, tensor<4x4xf32>
}
