// RUN: cuesta-opt %s -p "loops-to-kernel" --split-input-file

// Contiguous: the axes become one, and a program is a tile of it.
// CHECK:      kernel.func @exp_0({{.*}}) outs({{.*}}) schedule #kernel.schedule<grid = [8], parallel = 1, unroll = 2> {
// CHECK-NEXT:   %p = kernel.program_id 0
// CHECK-NEXT:   kernel.for (%k = %p * 5120 to %p * 5120 + 5120 lanes 8) {
// CHECK-NEXT:     %a = kernel.load %x[%k] : vector<8xf32>
// CHECK-NEXT:     %f = elem.exp %a : vector<8xf32>
// CHECK-NEXT:     %g = elem.convert %f : vector<8xf32> to vector<8xbf16>
// CHECK-NEXT:     kernel.store %g, %o[%k] : vector<8xbf16>
// CHECK:      %y = kernel.launch @exp_0(%x) : (tensor<64x64x10xf32>) -> (tensor<64x64x10xbf16>)
func.func @main(%x : tensor<64x64x10xf32>) -> tensor<64x64x10xbf16> {
  %y = loops.nest (%i : 64, %j : 64, %k : 10) outs(%o : tensor<64x64x10xbf16>) {
    %a = loops.load %x[%i, %j, %k] : tensor<64x64x10xf32>
    %f = elem.exp %a : f32
    %g = elem.convert %f : f32 to bf16
    loops.store %g, %o[%i, %j, %k] : tensor<64x64x10xbf16>
  }
  func.return %y : tensor<64x64x10xbf16>
}

// -----
// The bias hinders the merging of axes: several rows make up a program. What only the rows need is a scalar.
// CHECK:      kernel.for (%i = %p * 4 to %p * 4 + 4, %j = 0 to 1024 lanes 8) {
// CHECK-NEXT:   %a = kernel.load %x[%i * 1024 + %j] : vector<8xf32>
// CHECK-NEXT:   %b = kernel.load %bias[%j] : vector<8xf32>
// CHECK-NEXT:   %s = kernel.load %scale[%i] : f32
// CHECK-NEXT:   %d = elem.add %a, %b : vector<8xf32>
// CHECK-NEXT:   %0 = kernel.broadcast %s : f32 to vector<8xf32>
// CHECK-NEXT:   %e = elem.mul %d, %0 : vector<8xf32>
func.func @main(%x : tensor<4096x1024xf32>, %bias : tensor<1024xf32>, %scale : tensor<4096xf32>) -> tensor<4096x1024xf32> {
  %y = loops.nest (%i : 4096, %j : 1024) outs(%o : tensor<4096x1024xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4096x1024xf32>
    %b = loops.load %bias[%j] : tensor<1024xf32>
    %s = loops.load %scale[%i] : tensor<4096xf32>
    %d = elem.add %a, %b : f32
    %e = elem.mul %d, %s : f32
    loops.store %e, %o[%i, %j] : tensor<4096x1024xf32>
  }
  func.return %y : tensor<4096x1024xf32>
}

// -----
// A transpose: a tile, with lanes along both axes; the inner ones where the stores are contiguous.
// CHECK:      kernel.for (%i = %p * 64 to %p * 64 + 64 lanes 8) {
// CHECK-NEXT:   kernel.for (%j = %p_1 * 256 to %p_1 * 256 + 256 lanes 8 dim 1) {
// CHECK-NEXT:     %a = kernel.load %x[%i + %j * 1024] : vector<8x8xf32>
// CHECK-NEXT:     kernel.store %a, %o[%i * 512 + %j] : vector<8x8xf32>
func.func @main(%x : tensor<512x1024xf32>) -> tensor<1024x512xf32> {
  %y = loops.nest (%i : 1024, %j : 512) outs(%o : tensor<1024x512xf32>) {
    %a = loops.load %x[%j, %i] : tensor<512x1024xf32>
    loops.store %a, %o[%i, %j] : tensor<1024x512xf32>
  }
  func.return %y : tensor<1024x512xf32>
}

// -----
// An index made of data, by rows: the lanes stay contiguous.
// CHECK:      %q = kernel.load %k[%i] : i64
// CHECK-NEXT: %b = kernel.bound %q, 1000 wrap : i64
// CHECK-NEXT: kernel.load %x[%j + %b * 64] : vector<8xf32>
func.func @main(%x : tensor<1000x64xf32>, %k : tensor<20xi64>) -> tensor<20x64xf32> {
  %y = loops.nest (%i : 20, %j : 64) outs(%o : tensor<20x64xf32>) {
    %q = loops.load %k[%i] : tensor<20xi64>
    %b = loops.bound %q, 1000 wrap : i64
    %a = loops.load %x[%b, %j] : tensor<1000x64xf32>
    loops.store %a, %o[%i, %j] : tensor<20x64xf32>
  }
  func.return %y : tensor<20x64xf32>
}

// -----
// Rank 0: one program, all scalars.
// CHECK:      kernel.func @neg_0({{.*}}) schedule #kernel.schedule<grid = [], parallel = 0, unroll = 1> {
// CHECK-NEXT:   %a = kernel.load %x[1] : f32
// CHECK-NEXT:   %b = elem.neg %a : f32
// CHECK-NEXT:   kernel.store %b, %o[0] : f32
func.func @main(%x : tensor<2x2xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %a = loops.load %x[0, 1] : tensor<2x2xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}
