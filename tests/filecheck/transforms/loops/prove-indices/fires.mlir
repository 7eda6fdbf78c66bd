// RUN: cuesta-opt %s -p "prove-indices{target=cuda}" --split-input-file
// ROUNDTRIP

// A distance between two points, from the end as well; one that is cut off; an absolute value; a choice of two.
// CHECK: loops.bound %{{.*}}, 199 checked : i64
// CHECK: loops.bound %{{.*}}, 100 wrap checked : i64
// CHECK: loops.bound %{{.*}}, 9 checked : i64
// CHECK: loops.bound %{{.*}}, 100 checked : i32
// CHECK: loops.bound %{{.*}}, 3 checked : i64
func.func @main(%t : tensor<199xf32>, %u : tensor<100xf32>, %v : tensor<9xf32>, %p : tensor<100x100xi1>) -> tensor<100x100xf32> {
  %y = loops.nest (%i : 100, %j : 100) outs(%o : tensor<100x100xf32>) {
    %d = loops.index [%i - %j + 99] : i64
    %a = loops.bound %d, 199 wrap : i64
    %at = loops.load %t[%a] : tensor<199xf32>
    %e = loops.index [%i - 100] : i64
    %b = loops.bound %e, 100 wrap : i64
    %bu = loops.load %u[%b] : tensor<100xf32>
    %four = elem.constant 4 : i64
    %less = elem.constant -4 : i64
    %c0 = elem.maximum %d, %less : i64
    %c1 = elem.minimum %c0, %four : i64
    %c2 = elem.add %c1, %four : i64
    %c = loops.bound %c2, 9 : i64
    %cv = loops.load %v[%c] : tensor<9xf32>
    %f0 = loops.index [%i - %j] : i32
    %f1 = elem.abs %f0 : i32
    %f = loops.bound %f1, 100 : i32
    %fu = loops.load %u[%f] : tensor<100xf32>
    %is = loops.load %p[%i, %j] : tensor<100x100xi1>
    %one = elem.constant 1 : i64
    %two = elem.constant 2 : i64
    %g0 = elem.select %is, %one, %two : i64
    %g = loops.bound %g0, 3 : i64
    %gv = loops.load %v[%g] : tensor<9xf32>
    %s0 = elem.add %at, %bu : f32
    %s1 = elem.add %cv, %fu : f32
    %s2 = elem.add %s0, %s1 : f32
    %s = elem.add %s2, %gv : f32
    loops.store %s, %o[%i, %j] : tensor<100x100xf32>
  }
  func.return %y : tensor<100x100xf32>
}
