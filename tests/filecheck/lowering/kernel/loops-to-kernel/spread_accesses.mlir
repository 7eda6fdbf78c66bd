// RUN: cuesta-opt %s -p "split-scatters,loops-to-kernel" --split-input-file

// What is looked up along one axis does not hide that another axis is read across: a program takes a block of both.
// CHECK:      kernel.func @gather_0
// CHECK:        kernel.for (%i = 0 to 16, %j = %p_1 * 16 to {{.*}} lanes 8) {
// CHECK-NEXT:     kernel.load %x[%i + %j * 96 + %{{.*}} * 16] : vector<8xf32>
func.func @main(%x : tensor<40x6x16xf32>, %at : tensor<6xi64>) -> tensor<16x6x40xf32> {
  %y = loops.nest (%i : 16, %k : 6, %j : 40) outs(%o : tensor<16x6x40xf32>) {
    %r = loops.load %at[%k] : tensor<6xi64>
    %b = loops.bound %r, 6 : i64
    %v = loops.load %x[%j, %b, %i] : tensor<40x6x16xf32>
    loops.store %v, %o[%i, %k, %j] : tensor<16x6x40xf32>
  }
  func.return %y : tensor<16x6x40xf32>
}

// -----
// Near miss: looked up along the lanes, what is read lies nowhere side by side, and whole rows are run through.
// CHECK:      kernel.func @gather_0
// CHECK:        kernel.for (%i = 0 to 16, %j = 0 to 40 lanes 8) {
func.func @main(%x : tensor<40x16xf32>, %at : tensor<40xi64>) -> tensor<16x40xf32> {
  %y = loops.nest (%i : 16, %j : 40) outs(%o : tensor<16x40xf32>) {
    %r = loops.load %at[%j] : tensor<40xi64>
    %b = loops.bound %r, 40 : i64
    %v = loops.load %x[%b, %i] : tensor<40x16xf32>
    loops.store %v, %o[%i, %j] : tensor<16x40xf32>
  }
  func.return %y : tensor<16x40xf32>
}

// -----
// Columns that are loaded one by one are no stretches of a row: one vector of them, not several side by side.
// CHECK:      kernel.func @scatter_1
// CHECK:        kernel.for (%i = {{.*}} lanes 8) {
// CHECK-NEXT:     kernel.scan (%j = 0 to 48) {
// CHECK:            kernel.combine sum %{{.*}}, %o[%i * 48 + %{{.*}}] : vector<8xf32>
func.func @main(%start : tensor<2304x48xf32>, %x : tensor<2304x48xf32>, %at : tensor<48xi64>) -> tensor<2304x48xf32> {
  %y = loops.nest (%i : 2304) outs(%o : tensor<2304x48xf32>) {
    loops.for (%j : 48) {
      %s = loops.load %start[%i, %j] : tensor<2304x48xf32>
      loops.store %s, %o[%i, %j] : tensor<2304x48xf32>
    }
    loops.scan (%j : 48) {
      %r = loops.load %at[%j] : tensor<48xi64>
      %b = loops.bound %r, 48 : i64
      %v = loops.load %x[%i, %j] : tensor<2304x48xf32>
      loops.combine sum %v, %o[%i, %b] : tensor<2304x48xf32>
    }
  }
  func.return %y : tensor<2304x48xf32>
}

// -----
// Near miss: those of a row are read in stretches, several vectors side by side.
// CHECK:      kernel.func @scatter_1
// CHECK:        kernel.for (%i = {{.*}} lanes 128) {
func.func @main(%start : tensor<48x2304xf32>, %x : tensor<48x2304xf32>, %at : tensor<48xi64>) -> tensor<48x2304xf32> {
  %y = loops.nest (%i : 2304) outs(%o : tensor<48x2304xf32>) {
    loops.for (%j : 48) {
      %s = loops.load %start[%j, %i] : tensor<48x2304xf32>
      loops.store %s, %o[%j, %i] : tensor<48x2304xf32>
    }
    loops.scan (%j : 48) {
      %r = loops.load %at[%j] : tensor<48xi64>
      %b = loops.bound %r, 48 : i64
      %v = loops.load %x[%j, %i] : tensor<48x2304xf32>
      loops.combine sum %v, %o[%b, %i] : tensor<48x2304xf32>
    }
  }
  func.return %y : tensor<48x2304xf32>
}
