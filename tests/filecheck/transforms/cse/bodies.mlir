// RUN: cuesta-opt %s --split-input-file -p cse

// What an outer scope knows is known inside: the load in the reduction goes. What is known inside is not known after it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i, 0]
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %d = loops.load %x[%i, %j]
// CHECK-NEXT:       %e = elem.mul %a, %d
// CHECK-NEXT:       loops.yield %e
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     %t = loops.reduce maximum (%j : 8) {
// CHECK-NEXT:       %d = loops.load %x[%i, %j]
// CHECK-NEXT:       %e = elem.mul %a, %d
// CHECK-NEXT:       loops.yield %e
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     %u = elem.add %a, %s
// CHECK-NEXT:     %w = elem.mul %u, %u
// CHECK-NEXT:     loops.store %w, %o[%i]
// CHECK-NEXT:     loops.store %t, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>) {
    %a = loops.load %x[%i, 0] : tensor<4x8xf32>
    %b = loops.load %x[%i, 0] : tensor<4x8xf32>
    %s = loops.reduce sum (%j : 8) {
      %c = loops.load %x[%i, 0] : tensor<4x8xf32>
      %d = loops.load %x[%i, %j] : tensor<4x8xf32>
      %e = elem.mul %c, %d : f32
      loops.yield %e : f32
    } : f32
    %t = loops.reduce maximum (%j : 8) {
      %c = loops.load %x[%i, 0] : tensor<4x8xf32>
      %d = loops.load %x[%i, %j] : tensor<4x8xf32>
      %e = elem.mul %c, %d : f32
      loops.yield %e : f32
    } : f32
    %u = elem.add %a, %s : f32
    %v = elem.add %b, %s : f32
    %w = elem.mul %u, %v : f32
    loops.store %w, %o[%i] : tensor<4xf32>
    loops.store %t, %p[%i] : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// Near misses: casts to two types, constants that are equal only in Python (0.0 and -0.0; 1 and true), the operands of a
// subtraction, a mask, a bound that wraps.
// CHECK:      func.func @main
// CHECK-NEXT:   %y, %z = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %p: tensor<4xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i]
// CHECK-NEXT:     %f = elem.convert %a : f32 to f16
// CHECK-NEXT:     %g = elem.convert %a : f32 to bf16
// CHECK-NEXT:     %f32 = elem.convert %f : f16 to f32
// CHECK-NEXT:     %g32 = elem.convert %g : bf16 to f32
// CHECK-NEXT:     %d = elem.sub %f32, %g32
// CHECK-NEXT:     %e = elem.sub %g32, %f32
// CHECK-NEXT:     %zero = elem.constant 0.0 : f32
// CHECK-NEXT:     %minus = elem.constant -0.0 : f32
// CHECK-NEXT:     %h = elem.copysign %d, %zero
// CHECK-NEXT:     %l = elem.copysign %e, %minus
// CHECK-NEXT:     %one = elem.constant 1 : i64
// CHECK-NEXT:     %true = elem.constant true : i1
// CHECK-NEXT:     %q = loops.load %k[%i]
// CHECK-NEXT:     %m = elem.eq %q, %one
// CHECK-NEXT:     %n = elem.xor %m, %true
// CHECK-NEXT:     %b = loops.bound %q, 4 : i64
// CHECK-NEXT:     %c = loops.bound %q, 4 wrap : i64
// CHECK-NEXT:     %r = loops.load %x[%b] if %m else %h
// CHECK-NEXT:     %s = loops.load %x[%c] if %n else %l
// CHECK-NEXT:     loops.store %r, %o[%i]
// CHECK-NEXT:     loops.store %s, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>, %k : tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %f = elem.convert %a : f32 to f16
    %g = elem.convert %a : f32 to bf16
    %f32 = elem.convert %f : f16 to f32
    %g32 = elem.convert %g : bf16 to f32
    %d = elem.sub %f32, %g32 : f32
    %e = elem.sub %g32, %f32 : f32
    %zero = elem.constant 0.0 : f32
    %minus = elem.constant -0.0 : f32
    %h = elem.copysign %d, %zero : f32
    %l = elem.copysign %e, %minus : f32
    %one = elem.constant 1 : i64
    %true = elem.constant true : i1
    %q = loops.load %k[%i] : tensor<4xi64>
    %m = elem.eq %q, %one : i64
    %n = elem.xor %m, %true : i1
    %b = loops.bound %q, 4 : i64
    %c = loops.bound %q, 4 wrap : i64
    %r = loops.load %x[%b] if %m else %h : tensor<4xf32>
    %s = loops.load %x[%c] if %n else %l : tensor<4xf32>
    loops.store %r, %o[%i] : tensor<4xf32>
    loops.store %s, %p[%i] : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// Near miss: an out may have changed between two loads.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%i : 4) outs(%o: tensor<4x2xf32>) {
// CHECK-NEXT:     %a = loops.load %x[%i, 0]
// CHECK-NEXT:     loops.store %a, %o[%i, 0]
// CHECK-NEXT:     %b = loops.load %o[%i, 0]
// CHECK-NEXT:     %c = loops.load %o[%i, 0]
// CHECK-NEXT:     %d = elem.add %b, %c
// CHECK-NEXT:     loops.store %d, %o[%i, 1]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x2xf32>) -> tensor<4x2xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4x2xf32>) {
    %a = loops.load %x[%i, 0] : tensor<4x2xf32>
    loops.store %a, %o[%i, 0] : tensor<4x2xf32>
    %b = loops.load %o[%i, 0] : tensor<4x2xf32>
    %c = loops.load %o[%i, 0] : tensor<4x2xf32>
    %d = elem.add %b, %c : f32
    loops.store %d, %o[%i, 1] : tensor<4x2xf32>
  }
  func.return %y : tensor<4x2xf32>
}
