// RUN: cuesta-opt %s --split-input-file -p cse

// Two nests, two views, two pure calls that are alike become one each.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i, %j]
// CHECK-NEXT:     %w = elem.exp %v
// CHECK-NEXT:     loops.store %w, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %c = loops.view %a by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   %e = loops.extern pure "aten.mm.default"(%x, %c)
// CHECK-NEXT:   %g = loops.extern pure "aten.mm.default"(%e, %e)
// CHECK-NEXT:   func.return %g, %e
// CHECK-NEXT: }
func.func @main(%x : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %v = loops.load %x[%i, %j] : tensor<4x4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x4xf32>
  }
  %b = loops.nest (%k : 4, %l : 4) outs(%p : tensor<4x4xf32>) {
    %v = loops.load %x[%k, %l] : tensor<4x4xf32>
    %w = elem.exp %v : f32
    loops.store %w, %p[%k, %l] : tensor<4x4xf32>
  }
  %c = loops.view %a by (d0, d1) -> (d1, d0) : tensor<4x4xf32> to tensor<4x4xf32, #aten.layout<strides = [1, 4]>>
  %d = loops.view %b by (d0, d1) -> (d1, d0) : tensor<4x4xf32> to tensor<4x4xf32, #aten.layout<strides = [1, 4]>>
  %e = loops.extern pure "aten.mm.default"(%x, %c) : (tensor<4x4xf32>, tensor<4x4xf32, #aten.layout<strides = [1, 4]>>) -> tensor<4x4xf32>
  %f = loops.extern pure "aten.mm.default"(%x, %d) : (tensor<4x4xf32>, tensor<4x4xf32, #aten.layout<strides = [1, 4]>>) -> tensor<4x4xf32>
  %g = loops.extern pure "aten.mm.default"(%f, %e) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %g, %e : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Near misses: calls that are not pure, or that differ in an argument by no more than Python's == sees (1 and 1.0; 0.0 and
// -0.0).
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.extern "aten.rand_like.default"(%x)
// CHECK-NEXT:   %b = loops.extern "aten.rand_like.default"(%x)
// CHECK-NEXT:   %c = loops.extern pure "aten.sub.Tensor"(%a, %b)
// CHECK-NEXT:   %d = loops.extern pure "aten.pow.Tensor_Scalar"(%x, 1)
// CHECK-NEXT:   %e = loops.extern pure "aten.pow.Tensor_Scalar"(%x, 1.0)
// CHECK-NEXT:   %f = loops.extern pure "aten.sub.Tensor"(%d, %e)
// CHECK-NEXT:   %g = loops.extern pure "aten.add.Tensor"(%x, %x, alpha = 0.0)
// CHECK-NEXT:   %h = loops.extern pure "aten.add.Tensor"(%x, %x, alpha = -0.0)
// CHECK-NEXT:   %i = loops.extern pure "aten.sub.Tensor"(%g, %h)
// CHECK-NEXT:   func.return %c, %f, %i
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = loops.extern "aten.rand_like.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = loops.extern "aten.rand_like.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = loops.extern pure "aten.sub.Tensor"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = loops.extern pure "aten.pow.Tensor_Scalar"(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %e = loops.extern pure "aten.pow.Tensor_Scalar"(%x, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %f = loops.extern pure "aten.sub.Tensor"(%d, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = loops.extern pure "aten.add.Tensor"(%x, %x, alpha = 0.0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = loops.extern pure "aten.add.Tensor"(%x, %x, alpha = -0.0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i = loops.extern pure "aten.sub.Tensor"(%g, %h) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %c, %f, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Near miss: the caller gets both, and may write to one of them. Through a view it has the memory, too.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     loops.store %v, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     loops.store %v, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %c = loops.view %b by (d0, d1) -> (d0 * 2 + d1) : tensor<4xf32> to tensor<2x2xf32>
// CHECK-NEXT:   func.return %a, %c
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
  }
  %b = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
  }
  %c = loops.view %b by (d0, d1) -> (d0 * 2 + d1) : tensor<4xf32> to tensor<2x2xf32>
  func.return %a, %c : tensor<4xf32>, tensor<2x2xf32>
}

// -----

// Four nests of as many points that begin with the same load: the third is the first again, the others do something else.
// CHECK:      func.func @main
// CHECK:        elem.exp
// CHECK:        elem.log
// CHECK-NOT:    elem.exp
// CHECK:        elem.sqrt
// CHECK:        loops.load %y[%j]
// CHECK:        func.return %y, %z, %v, %s
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<4xf32>
  }
  %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.log %a : f32
    loops.store %b, %o[%i] : tensor<4xf32>
  }
  %w = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<4xf32>
  }
  %v = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.sqrt %a : f32
    loops.store %b, %o[%i] : tensor<4xf32>
  }
  %s = loops.nest () outs(%o : tensor<f32>) {
    %t = loops.reduce sum (%j : 4) {
      %a = loops.load %w[%j] : tensor<4xf32>
      loops.yield %a : f32
    } : f32
    loops.store %t, %o[] : tensor<f32>
  }
  func.return %y, %z, %v, %s : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
