// RUN: cuesta-opt %s -p "split-scatters,loops-to-kernel" --split-input-file

// A scan along the contiguous axis has the lanes; down columns, the lanes are the columns.
// CHECK:      kernel.func @cumsum_0
// CHECK:        kernel.scan (%j = 0 to 64 lanes 8) {
// CHECK-NEXT:     %v = kernel.load %x[%p * 64 + %j] : vector<8xf32>
// CHECK-NEXT:     %s = kernel.running sum %v : vector<8xf32>
// CHECK:      kernel.func @cumsum_1
// CHECK:        kernel.for (%i = {{.*}} lanes
// CHECK:          kernel.scan (%j = 0 to 32) {
// CHECK-NEXT:       %v = kernel.load
// CHECK-NEXT:       %s = kernel.running sum %v : vector<
func.func @main(%x : tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %a = loops.nest (%i : 32) outs(%o : tensor<32x64xf32>) {
    loops.scan (%j : 64) {
      %v = loops.load %x[%i, %j] : tensor<32x64xf32>
      %s = loops.running sum %v : f32
      loops.store %s, %o[%i, %j] : tensor<32x64xf32>
    }
  }
  %b = loops.nest (%i : 64) outs(%o : tensor<32x64xf32>) {
    loops.scan (%j : 32) {
      %v = loops.load %x[%j, %i] : tensor<32x64xf32>
      %s = loops.running sum %v : f32
      loops.store %s, %o[%j, %i] : tensor<32x64xf32>
    }
  }
  func.return %a, %b : tensor<32x64xf32>, tensor<32x64xf32>
}

// -----

// Near miss: of a product the order counts (0 · (a · b) is 0, though a · b overflows), so it takes one point at a time.
// The running value of what never changes stays in its scan, of one point too.
// CHECK:      kernel.func @cumprod_0
// CHECK:        kernel.scan (%j = 0 to 64) {
// CHECK:      kernel.func @cumsum_1
// CHECK:        kernel.scan (%j = 0 to 1) {
// CHECK-NEXT:     %s = kernel.running sum
func.func @main(%x : tensor<64xf32>) -> (tensor<64xf32>, tensor<1xf32>) {
  %a = loops.nest () outs(%o : tensor<64xf32>) {
    loops.scan (%j : 64) {
      %v = loops.load %x[%j] : tensor<64xf32>
      %s = loops.running prod %v : f32
      loops.store %s, %o[%j] : tensor<64xf32>
    }
  }
  %b = loops.nest () outs(%o : tensor<1xf32>) {
    loops.scan (%j : 1) {
      %v = elem.constant 2.0 : f32
      %s = loops.running sum %v : f32
      loops.store %s, %o[%j] : tensor<1xf32>
    }
  }
  func.return %a, %b : tensor<64xf32>, tensor<1xf32>
}

// -----

// A large scatter starts from what a kernel of its own wrote, and updates it where it is.
// CHECK:      kernel.func @copy_0(%x: {{.*}}) outs({{.*}}) schedule
// CHECK-NOT:    kernel.scan
// CHECK:      kernel.func @scatter_1(%i: {{.*}}, %g: {{.*}}) outs(%o: {{.*}}) updates 1 schedule
// CHECK:        kernel.for
// CHECK:          kernel.scan (%t = 0 to 12) {
// CHECK:            kernel.bound
// CHECK:            kernel.combine sum
// CHECK:      func.func @main
// CHECK-NEXT:   %[[START:.*]] = kernel.launch @copy_0(%x)
// CHECK-NEXT:   %y = kernel.launch @scatter_1(%i, %g, %[[START]])
// CHECK-NEXT:   func.return %y
func.func @main(%x : tensor<256x64xf32>, %g : tensor<12x64xf32>, %i : tensor<12xi64>) -> tensor<256x64xf32> {
  %y = loops.nest (%d : 64) outs(%o : tensor<256x64xf32>) {
    loops.for (%r : 256) {
      %v = loops.load %x[%r, %d] : tensor<256x64xf32>
      loops.store %v, %o[%r, %d] : tensor<256x64xf32>
    }
    loops.scan (%t : 12) {
      %k = loops.load %i[%t] : tensor<12xi64>
      %b = loops.bound %k, 256 : i64
      %v = loops.load %g[%t, %d] : tensor<12x64xf32>
      loops.combine sum %v, %o[%b, %d] : tensor<256x64xf32>
    }
  }
  func.return %y : tensor<256x64xf32>
}

// -----

// Near misses: a small one is one kernel, and so is one that two stages start.
// CHECK:      kernel.func @scatter_0
// CHECK-NOT:  updates
// CHECK:      kernel.func @scatter_1
// CHECK-NOT:  updates
// CHECK:      func.func @main
func.func @main(%g : tensor<12x64xf32>, %i : tensor<12xi64>) -> (tensor<8x64xf32>, tensor<256x64xf32>) {
  %y = loops.nest (%d : 64) outs(%o : tensor<8x64xf32>) {
    loops.for (%r : 8) {
      %z = elem.constant 0.0 : f32
      loops.store %z, %o[%r, %d] : tensor<8x64xf32>
    }
    loops.scan (%t : 12) {
      %k = loops.load %i[%t] : tensor<12xi64>
      %b = loops.bound %k, 8 : i64
      %v = loops.load %g[%t, %d] : tensor<12x64xf32>
      loops.combine maximum %v, %o[%b, %d] : tensor<8x64xf32>
    }
  }
  %w = loops.nest (%d : 64) outs(%o : tensor<256x64xf32>) {
    %z = elem.constant 0.0 : f32
    loops.for (%r : 128) {
      loops.store %z, %o[%r, %d] : tensor<256x64xf32>
    }
    loops.for (%r : 128) {
      loops.store %z, %o[%r + 128, %d] : tensor<256x64xf32>
    }
    loops.scan (%t : 12) {
      %k = loops.load %i[%t] : tensor<12xi64>
      %b = loops.bound %k, 256 : i64
      %v = loops.load %g[%t, %d] : tensor<12x64xf32>
      loops.combine assign %v, %o[%b, %d] : tensor<256x64xf32>
    }
  }
  func.return %y, %w : tensor<8x64xf32>, tensor<256x64xf32>
}
