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

// -----

// Attention of two queries.
// CHECK:     loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CHECK-NOT: loops.nest
func.func @main(%q : tensor<1x4x2x32xf32>, %k : tensor<1x4x512x32xf32>, %v : tensor<1x4x512x32xf32>) -> tensor<1x4x2x32xf32> {
  %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v) : (tensor<1x4x2x32xf32>, tensor<1x4x512x32xf32>, tensor<1x4x512x32xf32>) -> (tensor<1x4x2x32xf32>, tensor<1x4x2xf32>)
  func.return %o : tensor<1x4x2x32xf32>
}

// -----

// Of one that sees no further keys.
// CHECK:     loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CHECK-NOT: loops.nest
func.func @main(%q : tensor<1x4x1x32xf32>, %k : tensor<1x4x512x32xf32>, %v : tensor<1x4x512x32xf32>) -> tensor<1x4x1x32xf32> {
  %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v, is_causal = true) : (tensor<1x4x1x32xf32>, tensor<1x4x512x32xf32>, tensor<1x4x512x32xf32>) -> (tensor<1x4x1x32xf32>, tensor<1x4x1xf32>)
  func.return %o : tensor<1x4x1x32xf32>
}

// -----

// Whose logarithms are asked for.
// CHECK:     loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CHECK-NOT: loops.nest
func.func @main(%q : tensor<1x4x1x32xf32>, %k : tensor<1x4x512x32xf32>, %v : tensor<1x4x512x32xf32>) -> tensor<1x4x1xf32> {
  %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v) : (tensor<1x4x1x32xf32>, tensor<1x4x512x32xf32>, tensor<1x4x512x32xf32>) -> (tensor<1x4x1x32xf32>, tensor<1x4x1xf32>)
  func.return %l : tensor<1x4x1xf32>
}

// -----

// Of few keys.
// CHECK:     loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CHECK-NOT: loops.nest
func.func @main(%q : tensor<1x4x1x32xf32>, %k : tensor<1x4x511x32xf32>, %v : tensor<1x4x511x32xf32>) -> tensor<1x4x1x32xf32> {
  %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v) : (tensor<1x4x1x32xf32>, tensor<1x4x511x32xf32>, tensor<1x4x511x32xf32>) -> (tensor<1x4x1x32xf32>, tensor<1x4x1xf32>)
  func.return %o : tensor<1x4x1x32xf32>
}

// -----

// Of bf16.
// CHECK:     loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CHECK-NOT: loops.nest
func.func @main(%q : tensor<1x4x1x32xbf16>, %k : tensor<1x4x1024x32xbf16>, %v : tensor<1x4x1024x32xbf16>) -> tensor<1x4x1x32xbf16> {
  %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v) : (tensor<1x4x1x32xbf16>, tensor<1x4x1024x32xbf16>, tensor<1x4x1024x32xbf16>) -> (tensor<1x4x1x32xbf16>, tensor<1x4x1xf32>)
  func.return %o : tensor<1x4x1x32xbf16>
}

// -----

// Of keys that do not lie in rows.
// CHECK:     loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CHECK-NOT: loops.nest
func.func @main(%q : tensor<1x4x1x32xf32>, %k : tensor<1x4x512x32xf32, #aten.layout<strides = [65536, 16384, 1, 512]>>, %v : tensor<1x4x512x32xf32>) -> tensor<1x4x1x32xf32> {
  %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v) : (tensor<1x4x1x32xf32>, tensor<1x4x512x32xf32, #aten.layout<strides = [65536, 16384, 1, 512]>>, tensor<1x4x512x32xf32>) -> (tensor<1x4x1x32xf32>, tensor<1x4x1xf32>)
  func.return %o : tensor<1x4x1x32xf32>
}
