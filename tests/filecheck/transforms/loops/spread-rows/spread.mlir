// RUN: cuesta-opt %s -p "spread-rows{target=cuda}" --split-input-file

// CHECK:      %y = loops.nest (%i : 6, %j : 40) outs(%o: tensor<6x40xf32>) {
// CHECK-NEXT:   %a = loops.load %v[%i]
// CHECK-NEXT:   %b = elem.neg %a
// CHECK-NEXT:   %c = loops.load %x[%i, %j]
// CHECK-NEXT:   %d = elem.add %b, %c
// CHECK-NEXT:   loops.store %d, %o[%i, %j]
// CHECK-NEXT: }
func.func @main(%x : tensor<6x40xf32>, %v : tensor<6xf32>) -> tensor<6x40xf32> {
  %y = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    %a = loops.load %v[%i] : tensor<6xf32>
    %b = elem.neg %a : f32
    loops.for (%j : 40) {
      %c = loops.load %x[%i, %j] : tensor<6x40xf32>
      %d = elem.add %b, %c : f32
      loops.store %d, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  func.return %y : tensor<6x40xf32>
}

// -----

// Near misses: a reduction; two loops; a loop in a loop; a store beside the loop; a check; much for every row.
// CHECK-COUNT-6: loops.nest (%i : 6) outs
func.func @main(%x : tensor<6x40xf32>, %v : tensor<6xf32>, %k : tensor<6xi64>) -> (tensor<6x40xf32>, tensor<6x40xf32>, tensor<6x40xf32>, tensor<6x40xf32>, tensor<6xf32>, tensor<6x40xf32>, tensor<6x40xf32>) {
  %y1 = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    %s = loops.reduce sum (%j : 40) {
      %c = loops.load %x[%i, %j] : tensor<6x40xf32>
      loops.yield %c : f32
    } : f32
    loops.for (%j : 40) {
      loops.store %s, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  %y2 = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    %a = loops.load %v[%i] : tensor<6xf32>
    loops.for (%j : 20) {
      loops.store %a, %o[%i, %j] : tensor<6x40xf32>
    }
    loops.for (%j : 20) {
      loops.store %a, %o[%i, %j + 20] : tensor<6x40xf32>
    }
  }
  %y3 = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    %a = loops.load %v[%i] : tensor<6xf32>
    loops.for (%j : 4) {
      loops.for (%l : 10) {
        loops.store %a, %o[%i, %j * 10 + %l] : tensor<6x40xf32>
      }
    }
  }
  %y4, %z = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>, %p : tensor<6xf32>) {
    %a = loops.load %v[%i] : tensor<6xf32>
    loops.store %a, %p[%i] : tensor<6xf32>
    loops.for (%j : 40) {
      loops.store %a, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  %y5 = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    %a = loops.load %k[%i] : tensor<6xi64>
    %b = loops.bound %a, 6 : i64
    %c = loops.load %v[%b] : tensor<6xf32>
    loops.for (%j : 40) {
      loops.store %c, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  %y6 = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    %a = loops.load %v[%i] : tensor<6xf32>
    %b = elem.exp %a : f32
    %c = elem.log %b : f32
    %d = elem.tanh %c : f32
    loops.for (%j : 40) {
      loops.store %d, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  func.return %y1, %y2, %y3, %y4, %z, %y5, %y6 : tensor<6x40xf32>, tensor<6x40xf32>, tensor<6x40xf32>, tensor<6x40xf32>, tensor<6xf32>, tensor<6x40xf32>, tensor<6x40xf32>
}
