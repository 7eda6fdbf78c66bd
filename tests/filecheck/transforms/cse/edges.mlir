// RUN: cuesta-opt %s --split-input-file -p cse

// Rank 0, no elements, symbols: nests with domains of different sizes are not alike, with the same symbolic ones they are.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest () outs(%o: tensor<f32>) {
// CHECK-NEXT:     %v = loops.load %x[]
// CHECK-NEXT:     %u = elem.mul %v, %v
// CHECK-NEXT:     loops.store %u, %o[]
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = loops.nest (%i : 0) outs(%o: tensor<0xf32>) {
// CHECK-NEXT:     %v = loops.load %e[%i]
// CHECK-NEXT:     loops.store %v, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %c = loops.nest (%i : s0) outs(%o: tensor<?xf32, #aten.layout<sizes = [s0]>>) {
// CHECK-NEXT:     %v = loops.load %d[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:     %k = loops.index [%i + s0] : i64
// CHECK-NEXT:     %m = elem.sub %k, %k
// CHECK-NEXT:     %n = elem.convert %m : i64 to f32
// CHECK-NEXT:     %u = elem.add %v, %n
// CHECK-NEXT:     loops.store %u, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:   }
// CHECK-NEXT:   %f = loops.nest (%i : s0 * 2) outs(%o: tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>) {
// CHECK-NEXT:     %v = loops.load %d[%i floordiv 2] : tensor<?xf32, #aten.layout<sizes = [s0]>>
// CHECK-NEXT:     loops.store %v, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %b, %c, %f : tensor<f32>, tensor<0xf32>, tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<f32>, %e : tensor<0xf32>, %d : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> (tensor<f32>, tensor<0xf32>, tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>) attributes {sym.symbols = #sym.symbols<s0 in [0, 64]>} {
  %a = loops.nest () outs(%o : tensor<f32>) {
    %v = loops.load %x[] : tensor<f32>
    %w = loops.load %x[] : tensor<f32>
    %u = elem.mul %v, %w : f32
    loops.store %u, %o[] : tensor<f32>
  }
  %b = loops.nest (%i : 0) outs(%o : tensor<0xf32>) {
    %v = loops.load %e[%i] : tensor<0xf32>
    loops.store %v, %o[%i] : tensor<0xf32>
  }
  %c = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %v = loops.load %d[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    %k = loops.index [s0 + %i] : i64
    %l = loops.index [%i + s0] : i64
    %m = elem.sub %k, %l : i64
    %n = elem.convert %m : i64 to f32
    %u = elem.add %v, %n : f32
    loops.store %u, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  %f = loops.nest (%i : s0 * 2) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>) {
    %v = loops.load %d[%i floordiv 2] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    loops.store %v, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>
  }
  func.return %a, %b, %c, %f : tensor<f32>, tensor<0xf32>, tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<?xf32, #aten.layout<sizes = [s0 * 2]>>
}
