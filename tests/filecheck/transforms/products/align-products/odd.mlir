// RUN: cuesta-opt %s --machine "processors=1 launch=1" -p align-products --split-input-file

// An odd number of columns: the right factor has more of them, and the nest reads a part of the product.
// CHECK:      %[[W:.*]] = loops.nest (%[[K:.*]] : 24, %[[J:.*]] : 8) outs(%[[O:.*]]: tensor<24x8xbf16, #aten.layout<device = "cuda:0">>)
// CHECK-NEXT:   %[[N:.*]] = loops.index [%[[J]]] : i32
// CHECK-NEXT:   %[[S:.*]] = elem.constant 7 : i32
// CHECK-NEXT:   %[[T:.*]] = elem.lt %[[N]], %[[S]] : i32
// CHECK-NEXT:   %[[Z:.*]] = elem.constant 0.0 : bf16
// CHECK-NEXT:   loops.load %w[%[[K]], %[[J]]] if %[[T]] else %[[Z]]
// CHECK:      %[[M:.*]] = loops.extern pure "aten.mm.default"(%x, %[[W]]) : (tensor<16x24xbf16, #aten.layout<device = "cuda:0">>, tensor<24x8xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x8xbf16, #aten.layout<device = "cuda:0">>
// CHECK:        loops.load %[[M]][
func.func @main(%x : tensor<16x24xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<24x7xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x7xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<16x24xbf16, #aten.layout<device = "cuda:0">>, tensor<24x7xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i0 : 16, %i1 : 7) outs(%o : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %m[%i0, %i1] : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.neg %l : bf16
    loops.store %n, %o[%i0, %i1] : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// An odd number of points of each sum, and of columns: both factors are longer, the right one as it lies in memory. The
// caller gets a copy of the part; so does the bias.
// CHECK:      %[[B:.*]] = loops.nest (%{{.*}} : 8) outs(
// CHECK:        loops.load %b[
// CHECK:      %[[X:.*]] = loops.nest (%{{.*}} : 16, %{{.*}} : 32) outs(
// CHECK:        loops.load %x[
// CHECK:      %[[W:.*]] = loops.nest (%[[J:.*]] : 8, %[[K:.*]] : 32) outs(
// CHECK:        loops.load %w[%[[J]], %[[K]]] if
// CHECK:      %[[V:.*]] = loops.view %[[W]] by (d0, d1) -> (d1, d0) : tensor<8x32xbf16, #aten.layout<device = "cuda:0">> to tensor<32x8xbf16, #aten.layout<strides = [1, 32], device = "cuda:0">>
// CHECK:      %[[M:.*]] = loops.extern pure "aten.addmm.default"(%[[B]], %[[X]], %[[V]])
// CHECK-SAME: -> tensor<16x8xbf16, #aten.layout<device = "cuda:0">>
// CHECK:      %[[Y:.*]] = loops.nest (%{{.*}} : 16, %{{.*}} : 7)
// CHECK:        loops.load %[[M]][
// CHECK:      func.return %[[Y]]
func.func @main(%x : tensor<16x25xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<7x25xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<7xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x7xbf16, #aten.layout<device = "cuda:0">> {
  %v = loops.view %w by (d0, d1) -> (d1, d0) : tensor<7x25xbf16, #aten.layout<device = "cuda:0">> to tensor<25x7xbf16, #aten.layout<strides = [1, 25], device = "cuda:0">>
  %m = loops.extern pure "aten.addmm.default"(%b, %x, %v) : (tensor<7xbf16, #aten.layout<device = "cuda:0">>, tensor<16x25xbf16, #aten.layout<device = "cuda:0">>, tensor<25x7xbf16, #aten.layout<strides = [1, 25], device = "cuda:0">>) -> tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
  func.return %m : tensor<16x7xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// A left factor that lies column by column: its rows are what memory has in order, the points of the sums are not.
// CHECK:      %[[X:.*]] = loops.nest (%{{.*}} : 2, %{{.*}} : 25, %{{.*}} : 16) outs(
// CHECK:      %[[V:.*]] = loops.view %[[X]] by (d0, d1, d2) -> (d0, d2, d1)
// CHECK:      loops.extern pure "aten.bmm.default"(%[[V]], %w) : (tensor<2x16x25xbf16, #aten.layout<strides = [400, 1, 16], device = "cuda:0">>
// CHECK-SAME: -> tensor<2x16x8xbf16, #aten.layout<device = "cuda:0">>
func.func @main(%x : tensor<2x25x15xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<2x25x8xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x15x8xbf16, #aten.layout<device = "cuda:0">> {
  %v = loops.view %x by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x25x15xbf16, #aten.layout<device = "cuda:0">> to tensor<2x15x25xbf16, #aten.layout<strides = [375, 1, 15], device = "cuda:0">>
  %m = loops.extern pure "aten.bmm.default"(%v, %w) : (tensor<2x15x25xbf16, #aten.layout<strides = [375, 1, 15], device = "cuda:0">>, tensor<2x25x8xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x15x8xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i0 : 2, %i1 : 15, %i2 : 8) outs(%o : tensor<2x15x8xbf16, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %m[%i0, %i1, %i2] : tensor<2x15x8xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.neg %l : bf16
    loops.store %n, %o[%i0, %i1, %i2] : tensor<2x15x8xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<2x15x8xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// What only the product needs is computed where it gets its zeros; exp 0 is none.
// CHECK-NOT:  tensor<16x25xbf16, #aten.layout<device = "cuda:0">>)
// CHECK:      %[[E:.*]] = loops.nest (%{{.*}} : 16, %[[K:.*]] : 32) outs(
// CHECK:        loops.load %x[%{{.*}}, %[[K]]] if %[[T:.*]] else
// CHECK:        %[[X:.*]] = elem.exp %
// CHECK:        elem.select %[[T]], %{{.*}}, %
// CHECK:      loops.extern pure "aten.mm.default"(%[[E]], %
func.func @main(%x : tensor<16x25xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<25x8xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x8xbf16, #aten.layout<device = "cuda:0">> {
  %e = loops.nest (%i : 16, %j : 25) outs(%o : tensor<16x25xbf16, #aten.layout<device = "cuda:0">>) {
    %l = loops.load %x[%i, %j] : tensor<16x25xbf16, #aten.layout<device = "cuda:0">>
    %a = elem.convert %l : bf16 to f32
    %b = elem.exp %a : f32
    %c = elem.convert %b : f32 to bf16
    loops.store %c, %o[%i, %j] : tensor<16x25xbf16, #aten.layout<device = "cuda:0">>
  }
  %m = loops.extern pure "aten.mm.default"(%e, %w) : (tensor<16x25xbf16, #aten.layout<device = "cuda:0">>, tensor<25x8xbf16, #aten.layout<device = "cuda:0">>) -> tensor<16x8xbf16, #aten.layout<device = "cuda:0">>
  func.return %m : tensor<16x8xbf16, #aten.layout<device = "cuda:0">>
}
