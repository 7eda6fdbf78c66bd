// RUN: cuesta-opt %s -p "canonicalize,dce" --split-input-file

// What is added up is 0 everywhere but at one point, and a comparison says whether there is one.
// CHECK:      %y = loops.nest (%i : 4)
// CHECK-NOT:    loops.reduce
// CHECK:        %a = loops.load %v[%i]
// CHECK-NEXT:   %k = loops.load %w[%i]
// CHECK:        elem.ge %k, {{.*}} : i64
// CHECK:        elem.lt %k, {{.*}} : i64
// CHECK:        elem.and
// CHECK:        elem.add %a, {{.*}} : f32
// CHECK:        elem.select
func.func @main(%v : tensor<4xf32>, %w : tensor<4xi64>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %v[%i] : tensor<4xf32>
    %k = loops.load %w[%i] : tensor<4xi64>
    %zero = elem.constant 0.0 : f32
    %s = loops.reduce sum (%j : 9) {
      %n = loops.index [%j] : i64
      %e = elem.eq %n, %k : i64
      %t = elem.select %e, %a, %zero : f32
      loops.yield %t : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// The other way round, of integers, over a size that only the call knows.
// CHECK:      loops.nest (%i : 4)
// CHECK-NOT:    loops.reduce
// CHECK:        loops.index [s0] : i64
// CHECK:        elem.select
func.func @main(%v : tensor<4xi64>, %w : tensor<4xi64>, %x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> tensor<4xi64> attributes {sym.symbols = #sym.symbols<s0 in [2, 9]>} {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi64>) {
    %a = loops.load %v[%i] : tensor<4xi64>
    %k = loops.load %w[%i] : tensor<4xi64>
    %zero = elem.constant 0 : i64
    %s = loops.reduce sum (%j : s0) {
      %n = loops.index [%j] : i64
      %e = elem.ne %k, %n : i64
      %t = elem.select %e, %zero, %a : i64
      loops.yield %t : i64
    } : i64
    loops.store %s, %o[%i] : tensor<4xi64>
  }
  func.return %y : tensor<4xi64>
}

// -----

// Near misses: another number than 0; −0; a place that is moved; a value of the point; two axes; a maximum.
// CHECK-COUNT-6: loops.reduce
func.func @main(%v : tensor<4xf32>, %w : tensor<4xi64>, %x : tensor<9xf32>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %v[%i] : tensor<4xf32>
    %k = loops.load %w[%i] : tensor<4xi64>
    %zero = elem.constant 0.0 : f32
    %one = elem.constant 1.0 : f32
    %minus = elem.constant -0.0 : f32
    %s1 = loops.reduce sum (%j : 9) {
      %n = loops.index [%j] : i64
      %e = elem.eq %n, %k : i64
      %t = elem.select %e, %a, %one : f32
      loops.yield %t : f32
    } : f32
    %s2 = loops.reduce sum (%j : 9) {
      %n = loops.index [%j] : i64
      %e = elem.eq %n, %k : i64
      %t = elem.select %e, %a, %minus : f32
      loops.yield %t : f32
    } : f32
    %s3 = loops.reduce sum (%j : 9) {
      %n = loops.index [%j + 1] : i64
      %e = elem.eq %n, %k : i64
      %t = elem.select %e, %a, %zero : f32
      loops.yield %t : f32
    } : f32
    %s4 = loops.reduce sum (%j : 9) {
      %n = loops.index [%j] : i64
      %e = elem.eq %n, %k : i64
      %b = loops.load %x[%j] : tensor<9xf32>
      %t = elem.select %e, %b, %zero : f32
      loops.yield %t : f32
    } : f32
    %s5 = loops.reduce sum (%j : 9, %l : 2) {
      %n = loops.index [%j] : i64
      %e = elem.eq %n, %k : i64
      %t = elem.select %e, %a, %zero : f32
      loops.yield %t : f32
    } : f32
    %s6 = loops.reduce maximum (%j : 9) {
      %n = loops.index [%j] : i64
      %e = elem.eq %n, %k : i64
      %t = elem.select %e, %a, %zero : f32
      loops.yield %t : f32
    } : f32
    %s12 = elem.add %s1, %s2 : f32
    %s34 = elem.add %s3, %s4 : f32
    %s56 = elem.add %s5, %s6 : f32
    %s14 = elem.add %s12, %s34 : f32
    %s = elem.add %s14, %s56 : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
