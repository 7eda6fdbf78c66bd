// RUN: cuesta-opt %s -p nest-row-products --split-input-file

// A converted matrix, but five rows.
// CHECK:     loops.nest
// CHECK:     loops.extern pure "aten.mm.default"
func.func @main(%x : tensor<5x48xf32>, %w : tensor<32x48xi8>) -> tensor<5x32xf32> {
  %d = loops.nest (%0 : 32, %1 : 48) outs(%o : tensor<32x48xf32>) {
    %l = loops.load %w[%0, %1] : tensor<32x48xi8>
    %c = elem.convert %l : i8 to f32
    loops.store %c, %o[%0, %1] : tensor<32x48xf32>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<32x48xf32> to tensor<48x32xf32, #aten.layout<strides = [1, 48]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<5x48xf32>, tensor<48x32xf32, #aten.layout<strides = [1, 48]>>) -> tensor<5x32xf32>
  func.return %m : tensor<5x32xf32>
}

// -----

// One that others read, too.
// CHECK:     loops.nest
// CHECK:     loops.extern pure "aten.mm.default"
func.func @main(%x : tensor<1x48xf32>, %w : tensor<32x48xi8>) -> (tensor<1x32xf32>, tensor<32x48xf32>) {
  %d = loops.nest (%0 : 32, %1 : 48) outs(%o : tensor<32x48xf32>) {
    %l = loops.load %w[%0, %1] : tensor<32x48xi8>
    %c = elem.convert %l : i8 to f32
    loops.store %c, %o[%0, %1] : tensor<32x48xf32>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<32x48xf32> to tensor<48x32xf32, #aten.layout<strides = [1, 48]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<1x48xf32>, tensor<48x32xf32, #aten.layout<strides = [1, 48]>>) -> tensor<1x32xf32>
  func.return %m, %d : tensor<1x32xf32>, tensor<32x48xf32>
}

// -----

// One of which only every other element is read.
// CHECK:     loops.nest
// CHECK:     loops.extern pure "aten.mm.default"
func.func @main(%x : tensor<1x48xf32>, %w : tensor<32x96xi8>) -> tensor<1x32xf32> {
  %d = loops.nest (%0 : 32, %1 : 48) outs(%o : tensor<32x48xf32>) {
    %l = loops.load %w[%0, %1 * 2] : tensor<32x96xi8>
    %c = elem.convert %l : i8 to f32
    loops.store %c, %o[%0, %1] : tensor<32x48xf32>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<32x48xf32> to tensor<48x32xf32, #aten.layout<strides = [1, 48]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<1x48xf32>, tensor<48x32xf32, #aten.layout<strides = [1, 48]>>) -> tensor<1x32xf32>
  func.return %m : tensor<1x32xf32>
}

// -----

// One of fewer rows than a vector has lanes.
// CHECK:     loops.nest
// CHECK:     loops.extern pure "aten.mm.default"
func.func @main(%x : tensor<1x15xf32>, %w : tensor<32x15xi8>) -> tensor<1x32xf32> {
  %d = loops.nest (%0 : 32, %1 : 15) outs(%o : tensor<32x15xf32>) {
    %l = loops.load %w[%0, %1] : tensor<32x15xi8>
    %c = elem.convert %l : i8 to f32
    loops.store %c, %o[%0, %1] : tensor<32x15xf32>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<32x15xf32> to tensor<15x32xf32, #aten.layout<strides = [1, 15]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<1x15xf32>, tensor<15x32xf32, #aten.layout<strides = [1, 15]>>) -> tensor<1x32xf32>
  func.return %m : tensor<1x32xf32>
}

// -----

// One that is too much work to be made for each of two rows.
// CHECK:     loops.nest
// CHECK:     loops.extern pure "aten.mm.default"
func.func @main(%x : tensor<2x48xf32>, %w : tensor<32x48xi8>) -> tensor<2x32xf32> {
  %d = loops.nest (%0 : 32, %1 : 48) outs(%o : tensor<32x48xf32>) {
    %l = loops.load %w[%0, %1] : tensor<32x48xi8>
    %c = elem.convert %l : i8 to f32
    %e = elem.exp %c : f32
    loops.store %e, %o[%0, %1] : tensor<32x48xf32>
  }
  %t = loops.view %d by (d0, d1) -> (d1, d0) : tensor<32x48xf32> to tensor<48x32xf32, #aten.layout<strides = [1, 48]>>
  %m = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<2x48xf32>, tensor<48x32xf32, #aten.layout<strides = [1, 48]>>) -> tensor<2x32xf32>
  func.return %m : tensor<2x32xf32>
}
