// RUN: cuesta-opt %s -p loops-to-kernel --split-input-file

// Eight rows and 32 columns are summed side by side; a program has 64 rows of a strip.
// CHECK:      kernel.func {{.*}} schedule #kernel.schedule<grid = [8, 8], parallel = 1, unroll = 1> {
// CHECK:        kernel.for (%i = %p_1 * 64 to %p_1 * 64 + 64 lanes 8) {
// CHECK-NEXT:     kernel.for (%c = 0 to 32 lanes 32 dim 1) {
// CHECK-NEXT:       %s = kernel.reduce sum (%k = 0 to 256) {
// CHECK-NEXT:         %a = kernel.load %x[%i * 256 + %k] : vector<8xf32>
// CHECK-NEXT:         %b = kernel.load %p[{{.*}}] : vector<1x32xf32>
// CHECK:            kernel.yield %m : vector<8x32xf32>
// CHECK-NEXT:       } : vector<8x32xf32>
// CHECK-NEXT:       kernel.store %s, %o[{{.*}}] : vector<8x32xf32>
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, processors = 132>} {
  func.func @main(%x : tensor<512x256xf32>, %p : tensor<8x256x32xf32>) -> tensor<512x256xf32> {
    %y = loops.nest (%i : 512, %q : 8, %c : 32) outs(%o : tensor<512x256xf32>) schedule #loops.schedule<lanes = 32, rows = 8> {
      %s = loops.reduce sum (%k : 256) {
        %a = loops.load %x[%i, %k] : tensor<512x256xf32>
        %b = loops.load %p[%q, %k, %c] : tensor<8x256x32xf32>
        %m = elem.mul %a, %b : f32
        loops.yield %m : f32
      } : f32
      loops.store %s, %o[%i, %q * 32 + %c] : tensor<512x256xf32>
    }
    func.return %y : tensor<512x256xf32>
  }
}

// -----

// Few rows: programs are smaller, so that all threads have some.
// CHECK:      grid = [6, 2]
// CHECK:        kernel.for (%i = %p_1 * 8 to %p_1 * 8 + 8 lanes 8) {
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, processors = 132>} {
  func.func @main(%x : tensor<48x256xf32>, %p : tensor<2x256x32xf32>) -> tensor<48x64xf32> {
    %y = loops.nest (%i : 48, %q : 2, %c : 32) outs(%o : tensor<48x64xf32>) schedule #loops.schedule<lanes = 32, rows = 8> {
      %s = loops.reduce sum (%k : 256) {
        %a = loops.load %x[%i, %k] : tensor<48x256xf32>
        %b = loops.load %p[%q, %k, %c] : tensor<2x256x32xf32>
        %m = elem.mul %a, %b : f32
        loops.yield %m : f32
      } : f32
      loops.store %s, %o[%i, %q * 32 + %c] : tensor<48x64xf32>
    }
    func.return %y : tensor<48x64xf32>
  }
}
