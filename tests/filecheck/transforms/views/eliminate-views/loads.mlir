// RUN: cuesta-opt %s --split-input-file -p eliminate-views,dce

// A transposed read.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 8, %j : 4) outs(%o: tensor<8x4xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%j, %i]
// CHECK-NEXT:     %b = elem.exp %a
// CHECK-NEXT:     loops.store %b, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> tensor<8x4xf32> {
  %v = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %y = loops.nest (%i : 8, %j : 4) outs(%o : tensor<8x4xf32>) {
    %a = loops.load %v[%i, %j] : tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<8x4xf32>
  }
  func.return %y : tensor<8x4xf32>
}

// -----

// A chain of views, masked: split heads, transpose, merge heads. The mask and the value for what is masked stay.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 12, %j : 4) outs(%o: tensor<12x4xf32>) {
// CHECK-NEXT:     %k = loops.index [%i] : i64
// CHECK-NEXT:     %ten = elem.constant 10 : i64
// CHECK-NEXT:     %inside = elem.lt %k, %ten
// CHECK-NEXT:     %none = elem.constant -1.0 : f32
// CHECK-NEXT:     %a = loops.load %x[%i mod 6, %j + (%i floordiv 6) * 4] if %inside else %none
// CHECK-NEXT:     loops.store %a, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<6x8xf32>) -> tensor<12x4xf32> {
  %v = loops.view %x by (d0, d1, d2) -> (d0, d1 * 4 + d2) : tensor<6x8xf32> to tensor<6x2x4xf32>
  %w = loops.view %v by (d0, d1, d2) -> (d1, d0, d2) : tensor<6x2x4xf32> to tensor<2x6x4xf32, #aten.layout<strides = [4, 8, 1]>>
  %u = loops.view %w by (d0, d1) -> (d0 floordiv 6, d0 mod 6, d1) : tensor<2x6x4xf32, #aten.layout<strides = [4, 8, 1]>> to tensor<12x4xf32>
  %y = loops.nest (%i : 12, %j : 4) outs(%o : tensor<12x4xf32>) {
    %k = loops.index [%i] : i64
    %ten = elem.constant 10 : i64
    %inside = elem.lt %k, %ten : i64
    %none = elem.constant -1.0 : f32
    %a = loops.load %u[%i, %j] if %inside else %none : tensor<12x4xf32>
    loops.store %a, %o[%i, %j] : tensor<12x4xf32>
  }
  func.return %y : tensor<12x4xf32>
}

// -----

// What a split and a merge leave is simplified away, as the ranges of the induction variables allow it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 6, %j : 8) outs(%o: tensor<6x8xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i, %j]
// CHECK-NEXT:     loops.store %a, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<6x8xf32>) -> tensor<6x8xf32> {
  %v = loops.view %x by (d0) -> (d0 floordiv 8, d0 mod 8) : tensor<6x8xf32> to tensor<48xf32>
  %y = loops.nest (%i : 6, %j : 8) outs(%o : tensor<6x8xf32>) {
    %a = loops.load %v[%i * 8 + %j] : tensor<48xf32>
    loops.store %a, %o[%i, %j] : tensor<6x8xf32>
  }
  func.return %y : tensor<6x8xf32>
}

// -----

// A gather through a view: the index that was read is an index like any other.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 5, %j : 4) outs(%o: tensor<5x4xf32>) {
// CHECK-NEXT:     %a = loops.load %k[%i]
// CHECK-NEXT:     %b = loops.bound %a, 8 wrap : i64
// CHECK-NEXT:     %c = loops.load %x[%j, -%b + 7]
// CHECK-NEXT:     loops.store %c, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>, %k : tensor<5xi64>) -> tensor<5x4xf32> {
  %v = loops.view %x by (d0, d1) -> (d1, 7 - d0) : tensor<4x8xf32> to tensor<8x4xf32>
  %y = loops.nest (%i : 5, %j : 4) outs(%o : tensor<5x4xf32>) {
    %a = loops.load %k[%i] : tensor<5xi64>
    %b = loops.bound %a, 8 wrap : i64
    %c = loops.load %v[%b, %j] : tensor<8x4xf32>
    loops.store %c, %o[%i, %j] : tensor<5x4xf32>
  }
  func.return %y : tensor<5x4xf32>
}
