// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// A masked read: the loads of the body take the mask over, and the value is chosen at the end.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%j : 8) outs(%o: tensor<8xf32>) {
// CHECK-NEXT:     %k = loops.index [%j] : i64
// CHECK-NEXT:     %two = elem.constant 2 : i64
// CHECK-NEXT:     %six = elem.constant 6 : i64
// CHECK-NEXT:     %l = elem.ge %k, %two
// CHECK-NEXT:     %r = elem.lt %k, %six
// CHECK-NEXT:     %m = elem.and %l, %r
// CHECK-NEXT:     %p = elem.constant 0.5 : f32
// CHECK-NEXT:     %0 = elem.constant 0.0 : f32
// CHECK-NEXT:     %1 = loops.load %x[%j - 2] if %m else %0
// CHECK-NEXT:     %2 = elem.neg %1
// CHECK-NEXT:     %v = elem.select %m, %2, %p
// CHECK-NEXT:     loops.store %v, %o[%j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> tensor<8xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%j : 8) outs(%o : tensor<8xf32>) {
    %k = loops.index [%j] : i64
    %two = elem.constant 2 : i64
    %six = elem.constant 6 : i64
    %l = elem.ge %k, %two : i64
    %r = elem.lt %k, %six : i64
    %m = elem.and %l, %r : i1
    %p = elem.constant 0.5 : f32
    %v = loops.load %a[%j - 2] if %m else %p : tensor<4xf32>
    loops.store %v, %o[%j] : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}

// -----

// A read that was masked already: both masks.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%j : 8) outs(%o: tensor<8xf32>) {
// CHECK-NEXT:     %k = loops.index [%j] : i64
// CHECK-NEXT:     %two = elem.constant 2 : i64
// CHECK-NEXT:     %m = elem.ge %k, %two
// CHECK-NEXT:     %p = elem.constant 0.5 : f32
// CHECK-NEXT:     %0 = loops.index [%j - 2] : i64
// CHECK-NEXT:     %1 = elem.constant 4 : i64
// CHECK-NEXT:     %2 = elem.lt %0, %1
// CHECK-NEXT:     %3 = elem.constant 0.25 : f32
// CHECK-NEXT:     %4 = elem.and %2, %m
// CHECK-NEXT:     %5 = loops.load %x[%j - 2] if %4 else %3
// CHECK-NEXT:     %6 = elem.neg %5
// CHECK-NEXT:     %v = elem.select %m, %6, %p
// CHECK-NEXT:     loops.store %v, %o[%j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> tensor<8xf32> {
  %a = loops.nest (%i : 6) outs(%o : tensor<6xf32>) {
    %k = loops.index [%i] : i64
    %four = elem.constant 4 : i64
    %m = elem.lt %k, %four : i64
    %p = elem.constant 0.25 : f32
    %v = loops.load %x[%i] if %m else %p : tensor<4xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i] : tensor<6xf32>
  }
  %y = loops.nest (%j : 8) outs(%o : tensor<8xf32>) {
    %k = loops.index [%j] : i64
    %two = elem.constant 2 : i64
    %m = elem.ge %k, %two : i64
    %p = elem.constant 0.5 : f32
    %v = loops.load %a[%j - 2] if %m else %p : tensor<6xf32>
    loops.store %v, %o[%j] : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}

// -----

// A gather under a mask: where the mask is false no index is out of range.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%j : 8) outs(%o: tensor<8xf32>) {
// CHECK-NEXT:     %k = loops.index [%j] : i64
// CHECK-NEXT:     %four = elem.constant 4 : i64
// CHECK-NEXT:     %m = elem.lt %k, %four
// CHECK-NEXT:     %p = elem.constant 0.5 : f32
// CHECK-NEXT:     %0 = loops.index [%j + 4] : i64
// CHECK-NEXT:     %1 = elem.constant 0 : i64
// CHECK-NEXT:     %2 = elem.select %m, %0, %1
// CHECK-NEXT:     %3 = loops.bound %2, 8 : i64
// CHECK-NEXT:     %4 = elem.constant 0.0 : f32
// CHECK-NEXT:     %5 = loops.load %x[%3] if %m else %4
// CHECK-NEXT:     %v = elem.select %m, %5, %p
// CHECK-NEXT:     loops.store %v, %o[%j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %k = loops.index [%i + 4] : i64
    %b = loops.bound %k, 8 : i64
    %v = loops.load %x[%b] : tensor<8xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%j : 8) outs(%o : tensor<8xf32>) {
    %k = loops.index [%j] : i64
    %four = elem.constant 4 : i64
    %m = elem.lt %k, %four : i64
    %p = elem.constant 0.5 : f32
    %v = loops.load %a[%j] if %m else %p : tensor<4xf32>
    loops.store %v, %o[%j] : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}
