// RUN: cuesta-opt %s --split-input-file -p narrow-reductions | filecheck %s
// A point that does not count would raise if its index were out of range: all are looked at.

// CHECK-LABEL: kernel.func @raises
// CHECK: kernel.reduce sum (%{{.*}} = 0 to 9) {
kernel.func @raises(%x : !kernel.ptr<f32>, %n : !kernel.ptr<i64>, %end : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = []> {
  %last = kernel.load %end[0] : i64
  %b = kernel.bound %last, 10 : i64
  %to = kernel.index [%b] : i64
  %nothing = elem.constant 0.0 : f32
  %s = kernel.reduce sum (%i = 0 to 9) {
    %here = kernel.index [%i] : i64
    %in = elem.lt %here, %to : i64
    %name = kernel.load %n[%i] : i64
    %row = kernel.bound %name, 5 : i64
    %v = kernel.load %x[%row] if %in else %nothing : f32
    kernel.yield %v : f32
  } : f32
  kernel.store %s, %o[0] : f32
}
func.func @main(%x : tensor<5xf32>, %n : tensor<9xi64>, %end : tensor<1xi64>) -> tensor<1xf32> {
  %y = kernel.launch @raises(%x, %n, %end) : (tensor<5xf32>, tensor<9xi64>, tensor<1xi64>) -> tensor<1xf32>
  func.return %y : tensor<1xf32>
}

// -----
// What the others give is not the identity; the end is another at every point; it is one of each lane.

// CHECK-LABEL: kernel.func @others
// CHECK: kernel.reduce prod (%{{.*}} = 0 to 9) {
// CHECK: kernel.reduce sum (%{{.*}} = 0 to 9) {
// CHECK: kernel.reduce sum (%{{.*}} = 0 to 9) {
kernel.func @others(%x : !kernel.ptr<f32>, %end : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>, %q : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = []> {
  %last = kernel.load %end[0] : i64
  %b = kernel.bound %last, 10 : i64
  %to = kernel.index [%b] : i64
  %nothing = elem.constant 0.0 : f32
  %s = kernel.reduce prod (%i = 0 to 9) {
    %here = kernel.index [%i] : i64
    %in = elem.lt %here, %to : i64
    %v = kernel.load %x[%i] if %in else %nothing : f32
    kernel.yield %v : f32
  } : f32
  %t = kernel.reduce sum (%i = 0 to 9) {
    %here = kernel.index [%i] : i64
    %mine = kernel.load %end[%i] : i64
    %c = kernel.bound %mine, 10 : i64
    %limit = kernel.index [%c] : i64
    %in = elem.lt %here, %limit : i64
    %v = kernel.load %x[%i] if %in else %nothing : f32
    kernel.yield %v : f32
  } : f32
  %u = elem.add %s, %t : f32
  kernel.store %u, %o[0] : f32
  %none = elem.constant 0.0 : vector<4xf32>
  kernel.for (%j = 0 to 4 lanes 4) {
    %each = kernel.load %end[%j] : vector<4xi64>
    %d = kernel.bound %each, 10 : vector<4xi64>
    %ends = kernel.index [%d] : vector<4xi64>
    %w = kernel.reduce sum (%i = 0 to 9) {
      %here = kernel.index [%i] : i64
      %all = kernel.broadcast %here : i64 to vector<4xi64>
      %in = elem.lt %all, %ends : vector<4xi64>
      %v = kernel.load %x[%i] : f32
      %vs = kernel.broadcast %v : f32 to vector<4xf32>
      %y = elem.select %in, %vs, %none : vector<4xf32>
      kernel.yield %y : vector<4xf32>
    } : vector<4xf32>
    kernel.store %w, %q[%j] : vector<4xf32>
  }
}
func.func @main(%x : tensor<9xf32>, %end : tensor<9xi64>) -> (tensor<1xf32>, tensor<4xf32>) {
  %y, %z = kernel.launch @others(%x, %end) : (tensor<9xf32>, tensor<9xi64>) -> (tensor<1xf32>, tensor<4xf32>)
  func.return %y, %z : tensor<1xf32>, tensor<4xf32>
}
