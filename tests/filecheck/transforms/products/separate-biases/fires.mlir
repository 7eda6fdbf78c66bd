// RUN: cuesta-opt %s -p separate-biases --split-input-file

// A convolution, whose result a nest reads.
// CHECK:      %[[C:.*]] = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1]
// CHECK-NEXT: %[[Y:.*]] = loops.nest (%[[N:.*]] : 2, %[[K:.*]] : 5, %[[I:.*]] : 6, %[[J:.*]] : 6)
// CHECK-NEXT:   %[[A:.*]] = loops.load %[[C]][%[[N]], %[[K]], %[[I]], %[[J]]]
// CHECK-NEXT:   %[[B:.*]] = loops.load %b[%[[K]]]
// CHECK-NEXT:   elem.add %[[A]], %[[B]] : f32
// CHECK:      loops.load %[[Y]][
func.func @main(%x : tensor<2x3x6x6xf32, #aten.layout<device = "cuda:0">>, %w : tensor<5x3x3x3xf32, #aten.layout<device = "cuda:0">>, %b : tensor<5xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x6xf32, #aten.layout<device = "cuda:0">> {
  %c = loops.extern pure "aten.convolution.default"(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x3x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<5x3x3x3xf32, #aten.layout<device = "cuda:0">>, tensor<5xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6x6xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 2, %1 : 5, %2 : 6, %3 : 6) outs(%o : tensor<2x5x6x6xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1, %2, %3] : tensor<2x5x6x6xf32, #aten.layout<device = "cuda:0">>
    %e = elem.exp %l : f32
    loops.store %e, %o[%0, %1, %2, %3] : tensor<2x5x6x6xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x5x6x6xf32, #aten.layout<device = "cuda:0">>
}

// -----

// In bf16 the convolution is rounded first, as in eager; somebody else may see the sum.
// CHECK:      %[[C:.*]] = loops.extern pure "aten.convolution.default"(%x, %w, none
// CHECK:        elem.convert %{{.*}} : bf16 to f32
// CHECK:        elem.convert %{{.*}} : bf16 to f32
// CHECK:        elem.add %{{.*}} : f32
// CHECK-NEXT:   elem.convert %{{.*}} : f32 to bf16
func.func @main(%x : tensor<2x3x6xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<5x3x3xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<5xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>, tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>) {
  %c = loops.extern pure "aten.convolution.default"(%x, %w, %b, [1], [1], [1], false, [0], 1) : (tensor<2x3x6xbf16, #aten.layout<device = "cuda:0">>, tensor<5x3x3xbf16, #aten.layout<device = "cuda:0">>, tensor<5xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 2, %1 : 5, %2 : 6) outs(%o : tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1, %2] : tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1, %2] : tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y, %c : tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>, tensor<2x5x6xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// A product, with a bias of one row.
// CHECK:      %[[M:.*]] = loops.extern pure "aten.mm.default"(%x, %w)
// CHECK-NEXT: loops.nest (%[[I:.*]] : 4, %[[J:.*]] : 5)
// CHECK-NEXT:   loops.load %[[M]][%[[I]], %[[J]]]
// CHECK-NEXT:   loops.load %b[0, %[[J]]]
// CHECK-NEXT:   elem.add
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<1x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">> {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w) : (tensor<1x5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// The bias is read through views, as everything is.
// CHECK:      %[[M:.*]] = loops.extern pure "aten.mm.default"(%x, %w)
// CHECK:        loops.load %b[%{{.*}} + 2]
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<9xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">> {
  %v = loops.view %b by (d0) -> (d0 + 2) : tensor<9xf32, #aten.layout<device = "cuda:0">> to tensor<5xf32, #aten.layout<device = "cuda:0">>
  %c = loops.extern pure "aten.addmm.default"(%v, %x, %w) : (tensor<5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// What is added is one number.
// CHECK:      %[[M:.*]] = loops.extern pure "aten.mm.default"(%x, %w)
// CHECK:        loops.load %b[] : tensor<f32
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<f32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">> {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w) : (tensor<f32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}

// -----

// The gradient of a bias is a sum of ours.
// CHECK:      %dx, %dw, %{{.*}} = loops.extern pure "aten.convolution_backward.default"(%dy, %x, %w, [5], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false])
// CHECK:      %db = loops.nest (%[[C:.*]] : 5) outs(%{{.*}}: tensor<5xbf16, #aten.layout<device = "cuda:0">>) {
// CHECK-NEXT:   loops.reduce sum (%[[N:.*]] : 2, %[[I:.*]] : 6, %[[J:.*]] : 4) {
// CHECK-NEXT:     loops.load %dy[%[[N]], %[[C]], %[[I]], %[[J]]]
// CHECK-NEXT:     elem.convert %{{.*}} : bf16 to f32
func.func @main(%dy : tensor<2x5x6x4xbf16, #aten.layout<device = "cuda:0">>, %x : tensor<2x3x6x4xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<5x3x3x3xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x3x6x4xbf16, #aten.layout<device = "cuda:0">>, tensor<5x3x3x3xbf16, #aten.layout<device = "cuda:0">>, tensor<5xbf16, #aten.layout<device = "cuda:0">>) {
  %dx, %dw, %db = loops.extern pure "aten.convolution_backward.default"(%dy, %x, %w, [5], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true]) : (tensor<2x5x6x4xbf16, #aten.layout<device = "cuda:0">>, tensor<2x3x6x4xbf16, #aten.layout<device = "cuda:0">>, tensor<5x3x3x3xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x3x6x4xbf16, #aten.layout<device = "cuda:0">>, tensor<5x3x3x3xbf16, #aten.layout<device = "cuda:0">>, tensor<5xbf16, #aten.layout<device = "cuda:0">>)
  func.return %dx, %dw, %db : tensor<2x3x6x4xbf16, #aten.layout<device = "cuda:0">>, tensor<5x3x3x3xbf16, #aten.layout<device = "cuda:0">>, tensor<5xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// No nest follows a convolution: the library would add the bias by a kernel of its own, too.
// CHECK: %[[C:.*]] = loops.extern pure "aten.convolution.default"(%x, %w, none, [1]
// CHECK: loops.load %[[C]]
// CHECK: loops.load %b[%{{.*}}]
// CHECK: elem.add
func.func @main(%x : tensor<2x3x6xf32, #aten.layout<device = "cuda:0">>, %w : tensor<5x3x3xf32, #aten.layout<device = "cuda:0">>, %b : tensor<5xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6xf32, #aten.layout<device = "cuda:0">> {
  %c = loops.extern pure "aten.convolution.default"(%x, %w, %b, [1], [1], [1], false, [0], 1) : (tensor<2x3x6xf32, #aten.layout<device = "cuda:0">>, tensor<5x3x3xf32, #aten.layout<device = "cuda:0">>, tensor<5xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x5x6xf32, #aten.layout<device = "cuda:0">>
  func.return %c : tensor<2x5x6xf32, #aten.layout<device = "cuda:0">>
}

// -----

// A product whose terms are scaled; the bias of the second one is not read.
// CHECK:      %[[M:.*]] = loops.extern pure "aten.mm.default"(%x, %w)
// CHECK-NEXT: loops.nest
// CHECK:        loops.load %[[M]]
// CHECK:        elem.constant 0.5 : f32
// CHECK:        loops.load %b[
// CHECK:        elem.constant 2.0 : f32
// CHECK:        elem.add
// CHECK:      %[[N:.*]] = loops.extern pure "aten.mm.default"(%x, %w)
// CHECK-NEXT: loops.nest
// CHECK:        elem.constant 3.0 : f32
// CHECK-NOT:    loops.load %b[
// CHECK:      func.return
func.func @main(%x : tensor<4x3xf32, #aten.layout<device = "cuda:0">>, %w : tensor<3x5xf32, #aten.layout<device = "cuda:0">>, %b : tensor<5xf32, #aten.layout<device = "cuda:0">>) -> (tensor<4x5xf32, #aten.layout<device = "cuda:0">>, tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
  %c = loops.extern pure "aten.addmm.default"(%b, %x, %w, beta = 2.0, alpha = 0.5) : (tensor<5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %d = loops.extern pure "aten.addmm.default"(%b, %x, %w, beta = 0, alpha = 3) : (tensor<5xf32, #aten.layout<device = "cuda:0">>, tensor<4x3xf32, #aten.layout<device = "cuda:0">>, tensor<3x5xf32, #aten.layout<device = "cuda:0">>) -> tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  %y, %z = loops.nest (%0 : 4, %1 : 5) outs(%o : tensor<4x5xf32, #aten.layout<device = "cuda:0">>, %p : tensor<4x5xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %c[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    %m = loops.load %d[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
    loops.store %m, %p[%0, %1] : tensor<4x5xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y, %z : tensor<4x5xf32, #aten.layout<device = "cuda:0">>, tensor<4x5xf32, #aten.layout<device = "cuda:0">>
}
