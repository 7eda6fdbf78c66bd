// RUN: cuesta-opt %s --split-input-file -p split-index-sets | filecheck %s
// Windows of three rows of an image of 40 rows and 70 columns with one row and one column around it, two rows a step.
// The rows are cut where no window leaves the image, and there the columns, too, at whole vectors.

// CHECK-LABEL: kernel.func @windows
// CHECK: kernel.for (%{{.*}} = %p * 10 to min(%p * 10 + 10, 1), %{{.*}} = 0 to 70 lanes 8) {
// CHECK: kernel.for (%{{.*}} = max(%p * 10, 1) to {{.*}}) {
// CHECK:   kernel.for (%{{.*}} = 0 to 8 lanes 8) {
// CHECK:     kernel.load {{.*}} if
// CHECK:   kernel.for (%{{.*}} = 8 to 64 lanes 8) {
// CHECK-NOT: if
// CHECK-NOT: elem.ge
// CHECK:   kernel.for (%{{.*}} = 64 to 70 lanes 8) {
// CHECK:     kernel.load {{.*}} if
kernel.func @windows(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [2], parallel = 1> {
  %p = kernel.program_id 0
  %zero = elem.constant 0 : i64
  %rows = elem.constant 40 : i64
  %zeros = elem.constant 0 : vector<8xi64>
  %columns = elem.constant 70 : vector<8xi64>
  %lowest = elem.constant -inf : vector<8xf32>
  kernel.for (%i = %p * 10 to %p * 10 + 10, %j = 0 to 70 lanes 8) {
    %m = kernel.reduce maximum (%v = 0 to 3, %w = 0 to 3) {
      %r = kernel.index [%i * 2 + %v - 1] : i64
      %0 = elem.ge %r, %zero : i64
      %1 = elem.lt %r, %rows : i64
      %2 = elem.and %0, %1 : i1
      %c = kernel.index [%j + %w - 1] : vector<8xi64>
      %3 = elem.ge %c, %zeros : vector<8xi64>
      %4 = elem.gt %columns, %c : vector<8xi64>
      %5 = elem.and %3, %4 : vector<8xi1>
      %6 = kernel.broadcast %2 : i1 to vector<8xi1>
      %7 = elem.and %6, %5 : vector<8xi1>
      %8 = kernel.load %x[%i * 140 + %v * 70 + %j + %w - 71] if %7 else %lowest : vector<8xf32>
      kernel.yield %8 : vector<8xf32>
    } : vector<8xf32>
    kernel.store %m, %o[%i * 70 + %j] : vector<8xf32>
  }
}
func.func @main(%x : tensor<40x70xf32>) -> tensor<20x70xf32> {
  %y = kernel.launch @windows(%x) : (tensor<40x70xf32>) -> tensor<20x70xf32>
  func.return %y : tensor<20x70xf32>
}

// -----
// What is read in reverse is padding where the index is large: at none of these points is anything read.

// CHECK-LABEL: kernel.func @reversed
// CHECK: kernel.for (%{{.*}} = 0 to 20) {
// CHECK-NOT: if
// CHECK: kernel.for (%{{.*}} = 20 to 23) {
// CHECK-NEXT: kernel.store %nothing
kernel.func @reversed(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  %zero = elem.constant 0 : i64
  %nothing = elem.constant 0.0 : f32
  kernel.for (%i = 0 to 23) {
    %r = kernel.index [19 - %i] : i64
    %0 = elem.ge %r, %zero : i64
    %1 = kernel.load %x[19 - %i] if %0 else %nothing : f32
    kernel.store %1, %o[%i] : f32
  }
}
func.func @main(%x : tensor<20xf32>) -> tensor<23xf32> {
  %y = kernel.launch @reversed(%x) : (tensor<20xf32>) -> tensor<23xf32>
  func.return %y : tensor<23xf32>
}
