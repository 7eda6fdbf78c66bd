// RUN: cuesta-opt %s -p nest-row-products --split-input-file

// Two rows.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<2x256xf32>, %w : tensor<256x1024xf32, #aten.layout<strides = [1, 256]>>) -> tensor<2x1024xf32> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<2x256xf32>, tensor<256x1024xf32, #aten.layout<strides = [1, 256]>>) -> tensor<2x1024xf32>
  func.return %m : tensor<2x1024xf32>
}

// -----

// A matrix of less than 256 KiB.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<1x255xf32>, %w : tensor<255x256xf32, #aten.layout<strides = [1, 255]>>) -> tensor<1x256xf32> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x255xf32>, tensor<255x256xf32, #aten.layout<strides = [1, 255]>>) -> tensor<1x256xf32>
  func.return %m : tensor<1x256xf32>
}

// -----

// A matrix that lies row by row.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<1x256xf32>, %w : tensor<256x1024xf32, #aten.layout<strides = [1024, 1]>>) -> tensor<1x1024xf32> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x256xf32>, tensor<256x1024xf32, #aten.layout<strides = [1024, 1]>>) -> tensor<1x1024xf32>
  func.return %m : tensor<1x1024xf32>
}

// -----

// A part of every column.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<1x256xf32>, %w : tensor<256x1024xf32, #aten.layout<strides = [1, 300]>>) -> tensor<1x1024xf32> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x256xf32>, tensor<256x1024xf32, #aten.layout<strides = [1, 300]>>) -> tensor<1x1024xf32>
  func.return %m : tensor<1x1024xf32>
}

// -----

// Short sums.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<1x96xf32>, %w : tensor<96x8192xf32, #aten.layout<strides = [1, 96]>>) -> tensor<1x8192xf32> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x96xf32>, tensor<96x8192xf32, #aten.layout<strides = [1, 96]>>) -> tensor<1x8192xf32>
  func.return %m : tensor<1x8192xf32>
}

// -----

// Few columns.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<1x16384xf32>, %w : tensor<16384x128xf32, #aten.layout<strides = [1, 16384]>>) -> tensor<1x128xf32> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x16384xf32>, tensor<16384x128xf32, #aten.layout<strides = [1, 16384]>>) -> tensor<1x128xf32>
  func.return %m : tensor<1x128xf32>
}

// -----

// f64.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<1x256xf64>, %w : tensor<256x1024xf64, #aten.layout<strides = [1, 256]>>) -> tensor<1x1024xf64> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x256xf64>, tensor<256x1024xf64, #aten.layout<strides = [1, 256]>>) -> tensor<1x1024xf64>
  func.return %m : tensor<1x1024xf64>
}

// -----

// A GPU.
// CHECK:     loops.extern pure "aten.mm.default"
// CHECK-NOT: loops.nest
func.func @main(%x : tensor<1x256xf32, #aten.layout<device = "cuda:0">>, %w : tensor<256x1024xf32, #aten.layout<strides = [1, 256], device = "cuda:0">>) -> tensor<1x1024xf32, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x256xf32, #aten.layout<device = "cuda:0">>, tensor<256x1024xf32, #aten.layout<strides = [1, 256], device = "cuda:0">>) -> tensor<1x1024xf32, #aten.layout<device = "cuda:0">>
  func.return %m : tensor<1x1024xf32, #aten.layout<device = "cuda:0">>
}
