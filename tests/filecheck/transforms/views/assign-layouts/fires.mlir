// RUN: cuesta-opt %s --split-input-file -p assign-layouts

// Between two convolutions everything is channels last; the input is copied, and the caller's strides stay.
// CHECK:      func.func @main
// CHECK-NEXT:   %0 = loops.nest (%1 : 2, %2 : 8, %3 : 6, %4 : 6) outs(%5: tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>) {
// CHECK-NEXT:     %6 = loops.load %x[%1, %2, %3, %4]
// CHECK-NEXT:     loops.store %6, %5[%1, %2, %3, %4]
// CHECK-NEXT:   }
// CHECK-NEXT:   %a = loops.extern pure "aten.convolution.default"(%0, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
// CHECK-SAME:     -> tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>
// CHECK-NEXT:   %y = loops.nest (%1 : 2, %2 : 8, %3 : 6, %4 : 6) outs(%o: tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>) {
// CHECK-NEXT:     %l = loops.load %a[%1, %2, %3, %4] : tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>
// CHECK-NEXT:     %e = elem.neg %l : f32
// CHECK-NEXT:     loops.store %e, %o[%1, %2, %3, %4]
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = loops.extern pure "aten.convolution.default"(%y, %v, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
// CHECK-NEXT:   %z = loops.nest (%1 : 2, %2 : 8, %3 : 6, %4 : 6) outs(%o: tensor<2x8x6x6xf32>) {
// CHECK-NEXT:     %l = loops.load %b[%1, %2, %3, %4] : tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>
func.func @main(%x : tensor<2x8x6x6xf32>, %w : tensor<8x8x3x3xf32>, %v : tensor<8x8x1x1xf32>) -> tensor<2x8x6x6xf32> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %y = loops.nest (%0 : 2, %1 : 8, %2 : 6, %3 : 6) outs(%o : tensor<2x8x6x6xf32>) {
    %l = loops.load %a[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
    %e = elem.neg %l : f32
    loops.store %e, %o[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
  }
  %b = loops.extern pure "aten.convolution.default"(%y, %v, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x6x6xf32>
  %z = loops.nest (%0 : 2, %1 : 8, %2 : 6, %3 : 6) outs(%o : tensor<2x8x6x6xf32>) {
    %l = loops.load %b[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
    %e = elem.neg %l : f32
    loops.store %e, %o[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
  }
  func.return %z : tensor<2x8x6x6xf32>
}

// -----

// Another reader of strides gets a copy in the old layout. Four convolutions in a row pay for it, and for the input's.
// CHECK:      func.func @main
// CHECK:        %c = loops.extern pure "aten.convolution.default"
// CHECK-SAME:     -> tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>
// CHECK-NEXT:   %1 = loops.nest (%2 : 2, %3 : 8, %4 : 6, %5 : 6) outs(%6: tensor<2x8x6x6xf32>) {
// CHECK-NEXT:     %7 = loops.load %c[%2, %3, %4, %5] : tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>
// CHECK-NEXT:     loops.store %7, %6[%2, %3, %4, %5]
// CHECK:        %d = loops.extern pure "aten.convolution.default"(%c, %w
// CHECK:        func.return %1
func.func @main(%x : tensor<2x8x6x6xf32>, %w : tensor<8x8x3x3xf32>) -> (tensor<2x8x6x6xf32>, tensor<f32>) {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %b = loops.extern pure "aten.convolution.default"(%a, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %b2 = loops.extern pure "aten.convolution.default"(%b, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %b3 = loops.extern pure "aten.convolution.default"(%b2, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %b4 = loops.extern pure "aten.convolution.default"(%b3, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %b5 = loops.extern pure "aten.convolution.default"(%b4, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %c = loops.extern pure "aten.convolution.default"(%b5, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %d = loops.extern pure "aten.convolution.default"(%c, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %s = loops.nest () outs(%o : tensor<f32>) {
    %l = loops.load %d[0, 0, 0, 0] : tensor<2x8x6x6xf32>
    loops.store %l, %o[] : tensor<f32>
  }
  func.return %c, %s : tensor<2x8x6x6xf32>, tensor<f32>
}

// -----

// What lies between a convolution and another nest is channels last, too, and what only such a nest reads; what the
// caller gets is not.
// CHECK:      func.func @main
// CHECK:        %y, %y2 = loops.nest (%1 : 2, %2 : 8, %3 : 6, %4 : 6) outs(%o: tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>, %q: tensor<2x8x6x6xf32>) {
// CHECK:        %u = loops.nest (%1 : 2, %2 : 8, %3 : 6, %4 : 6) outs(%o: tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>) {
// CHECK:        %p = loops.nest (%1 : 2, %2 : 8, %3 : 3, %4 : 3) outs(%o: tensor<2x8x3x3xf32, #aten.layout<strides = [72, 1, 24, 8]>>) {
// CHECK-NEXT:     %l = loops.load %y[%1, %2, %3 * 2, %4 * 2] : tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8]>>
func.func @main(%x : tensor<2x8x6x6xf32>, %w : tensor<8x8x3x3xf32>, %v : tensor<8xf32>) -> (tensor<2x8x6x6xf32>, tensor<2x8x3x3xf32>) {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %y, %y2 = loops.nest (%0 : 2, %1 : 8, %2 : 6, %3 : 6) outs(%o : tensor<2x8x6x6xf32>, %q : tensor<2x8x6x6xf32>) {
    %l = loops.load %a[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
    %e = elem.neg %l : f32
    loops.store %e, %o[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
    loops.store %e, %q[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
  }
  %u = loops.nest (%0 : 2, %1 : 8, %2 : 6, %3 : 6) outs(%o : tensor<2x8x6x6xf32>) {
    %l = loops.load %v[%1] : tensor<8xf32>
    loops.store %l, %o[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
  }
  %p = loops.nest (%0 : 2, %1 : 8, %2 : 3, %3 : 3) outs(%o : tensor<2x8x3x3xf32>) {
    %l = loops.load %y[%0, %1, %2 * 2, %3 * 2] : tensor<2x8x6x6xf32>
    %m = loops.load %u[%0, %1, %2, %3] : tensor<2x8x6x6xf32>
    %e = elem.add %l, %m : f32
    loops.store %e, %o[%0, %1, %2, %3] : tensor<2x8x3x3xf32>
  }
  %b = loops.extern pure "aten.convolution.default"(%p, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x3x3xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x3x3xf32>
  %z = loops.nest (%0 : 2, %1 : 8, %2 : 3, %3 : 3) outs(%o : tensor<2x8x3x3xf32>) {
    %l = loops.load %b[%0, %1, %2, %3] : tensor<2x8x3x3xf32>
    loops.store %l, %o[%0, %1, %2, %3] : tensor<2x8x3x3xf32>
  }
  func.return %y2, %z : tensor<2x8x6x6xf32>, tensor<2x8x3x3xf32>
}

// -----

// A depthwise and a transposed convolution, on the CPU; a reduction over places reads either layout by rows.
// CHECK:      func.func @main
// CHECK:        %a = loops.extern pure "aten.convolution.default"(%0, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 8)
// CHECK-SAME:     -> tensor<2x8x32x32xf32, #aten.layout<strides = [8192, 1, 256, 8]>>
// CHECK-NEXT:   %b = loops.extern pure "aten.convolution.default"(%a, %v, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1)
// CHECK-SAME:     -> tensor<2x4x64x64xf32, #aten.layout<strides = [16384, 1, 256, 4]>>
// CHECK-NEXT:   %m = loops.nest (%1 : 2, %2 : 4) outs(%o: tensor<2x4xf32>) {
func.func @main(%x : tensor<2x8x32x32xf32>, %w : tensor<8x1x3x3xf32>, %v : tensor<8x4x2x2xf32>) -> tensor<2x4xf32> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 8) : (tensor<2x8x32x32xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x32x32xf32>
  %b = loops.extern pure "aten.convolution.default"(%a, %v, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<2x8x32x32xf32>, tensor<8x4x2x2xf32>) -> tensor<2x4x64x64xf32>
  %m = loops.nest (%0 : 2, %1 : 4) outs(%o : tensor<2x4xf32>) {
    %s = loops.reduce sum (%2 : 64, %3 : 64) {
      %l = loops.load %b[%0, %1, %2, %3] : tensor<2x4x64x64xf32>
      loops.yield %l : f32
    } : f32
    loops.store %s, %o[%0, %1] : tensor<2x4xf32>
  }
  func.return %m : tensor<2x4xf32>
}

// -----

// What is flattened by rows is read across when it is channels last: that costs more here than the library saves.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.extern pure "aten.convolution.default"(%x, %w
// CHECK-SAME:     -> tensor<2x8x6x6xf32>
// CHECK-NEXT:   %f = loops.nest
func.func @main(%x : tensor<2x8x6x6xf32>, %w : tensor<8x8x3x3xf32>) -> tensor<2x288xf32> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %f = loops.nest (%0 : 2, %1 : 288) outs(%o : tensor<2x288xf32>) {
    %l = loops.load %a[%0, %1 floordiv 36, %1 mod 36 floordiv 6, %1 mod 6] : tensor<2x8x6x6xf32>
    loops.store %l, %o[%0, %1] : tensor<2x288xf32>
  }
  func.return %f : tensor<2x288xf32>
}

// -----

// On a GPU a copy is dear: that of a few colours pays for many channels.
// CHECK:      func.func @main
// CHECK:        %a = loops.extern pure "aten.convolution.default"(%0, %w
// CHECK-SAME:     -> tensor<2x64x32x32xf32, #aten.layout<strides = [65536, 1, 2048, 64], device = "cuda:0">>
// CHECK:        %b = loops.extern pure "aten.convolution.default"(%a, %v
// CHECK-SAME:     -> tensor<2x64x32x32xf32, #aten.layout<strides = [65536, 1, 2048, 64], device = "cuda:0">>
func.func @main(%x : tensor<2x3x32x32xf32, #aten.layout<device = "cuda:0">>, %w : tensor<64x3x3x3xf32, #aten.layout<device = "cuda:0">>, %v : tensor<64x64x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64xf32, #aten.layout<device = "cuda:0">> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x3x32x32xf32, #aten.layout<device = "cuda:0">>, tensor<64x3x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
  %b = loops.extern pure "aten.convolution.default"(%a, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>, tensor<64x64x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
  %m = loops.nest (%0 : 2, %1 : 64) outs(%o : tensor<2x64xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%2 : 32, %3 : 32) {
      %l = loops.load %b[%0, %1, %2, %3] : tensor<2x64x32x32xf32, #aten.layout<device = "cuda:0">>
      loops.yield %l : f32
    } : f32
    loops.store %s, %o[%0, %1] : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %m : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
}

// -----

// A backward pass: what it is given is channels last already, so its gradients are, too; a weight's keeps its strides.
// CHECK:      %0 = loops.nest {{.*}} outs(%{{.*}}: tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8], device = "cuda:0">>) {
// CHECK-NEXT:   loops.load %dy[
// CHECK:      loops.extern pure "aten.convolution_backward.default"(%0, %x, %w,
// CHECK-SAME:   -> (tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8], device = "cuda:0">>, tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>, !aten.literal)
func.func @main(%dy : tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, %x : tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8], device = "cuda:0">>, %w : tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>) -> (tensor<8x6xf32, #aten.layout<device = "cuda:0">>, tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>) {
  %dx, %dw, %db = loops.extern pure "aten.convolution_backward.default"(%dy, %x, %w, [8], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]) : (tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8], device = "cuda:0">>, tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>) -> (tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>, !aten.literal)
  %y = loops.nest (%i : 8, %j : 6) outs(%o : tensor<8x6xf32, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %dx[0, %i, %j, 0] : tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>
    loops.store %l, %o[%i, %j] : tensor<8x6xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y, %dw : tensor<8x6xf32, #aten.layout<device = "cuda:0">>, tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Of what a forward pass gives the first result is the caller's, who sees its strides; the second is for the backward pass.
// CHECK:      func.func @main
// CHECK-SAME:   -> (tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<2x8x6x6xf32, #aten.layout<strides = [288, 1, 48, 8], device = "cuda:0">>)
func.func @main(%x : tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, %w : tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>) -> (tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>) attributes {aten.given = 1 : i64} {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>
  %b = loops.extern pure "aten.convolution.default"(%a, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<8x8x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>
  func.return %b, %a : tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>, tensor<2x8x6x6xf32, #aten.layout<device = "cuda:0">>
}

// -----

// A norm's sum may go along what it likes, but its loop reads and writes with the same lanes: %y lies like %a.
// CHECK:      %a = loops.extern pure "aten.convolution.default"
// CHECK:      %y = loops.nest {{.*}} outs(%o: tensor<2x32x64x64xf32, #aten.layout<strides = [131072, 1, 2048, 32], device = "cuda:0">>)
func.func @main(%x : tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>, %w : tensor<32x32x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x32xf32, #aten.layout<device = "cuda:0">> {
  %a = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>, tensor<32x32x3x3xf32, #aten.layout<device = "cuda:0">>) -> tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%0 : 2) outs(%o : tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%1 : 32, %2 : 64, %3 : 64) {
      %l = loops.load %a[%0, %1, %2, %3] : tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %l : f32
    } : f32
    loops.for (%1 : 32, %2 : 64, %3 : 64) {
      %l = loops.load %a[%0, %1, %2, %3] : tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>
      %d = elem.sub %l, %s : f32
      loops.store %d, %o[%0, %1, %2, %3] : tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>
    }
  }
  %m = loops.nest (%0 : 2, %1 : 32) outs(%o : tensor<2x32xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%2 : 64, %3 : 64) {
      %l = loops.load %y[%0, %1, %2, %3] : tensor<2x32x64x64xf32, #aten.layout<device = "cuda:0">>
      loops.yield %l : f32
    } : f32
    loops.store %s, %o[%0, %1] : tensor<2x32xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %m : tensor<2x32xf32, #aten.layout<device = "cuda:0">>
}
