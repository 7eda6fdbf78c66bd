// RUN: cuesta-opt %s --split-input-file -p narrow-reductions | filecheck %s
// RUN: cuesta-opt %s --split-input-file -p "narrow-reductions,narrow-reductions" | filecheck %s
// ROUNDTRIP
// A bag of rows: the loop goes from one of its ends to the other, and asks nothing. Twice is as good as once.

// CHECK-LABEL: kernel.func @bag
// CHECK: %[[A:.*]] = kernel.bound %{{.*}}, 10 : i64
// CHECK: %[[B:.*]] = kernel.bound %{{.*}}, 10 : i64
// CHECK: kernel.reduce sum (%[[I:.*]] = %[[A]] to min(%[[B]], 9)) {
// CHECK-NEXT: %[[N:.*]] = kernel.load %n[%[[I]]] : i64
// CHECK-NEXT: %[[R:.*]] = kernel.bound %[[N]], 5 : i64
// CHECK-NEXT: %[[V:.*]] = kernel.load %x[%{{.*}} + %[[R]] * 4] : vector<4xf32>
// CHECK-NEXT: kernel.yield %[[V]]
kernel.func @bag(%x : !kernel.ptr<f32>, %n : !kernel.ptr<i64>, %ends : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [2]> {
  %p = kernel.program_id 0
  %first = kernel.load %ends[%p] : i64
  %last = kernel.load %ends[%p + 1] : i64
  %a = kernel.bound %first, 10 : i64
  %b = kernel.bound %last, 10 : i64
  %zero = elem.constant 0 : i64
  %nothing = elem.constant 0.0 : vector<4xf32>
  kernel.for (%j = 0 to 4 lanes 4) {
    %s = kernel.reduce sum (%i = 0 to 9) {
      %here = kernel.index [%i] : i64
      %from = kernel.index [%a] : i64
      %to = kernel.index [%b] : i64
      %0 = elem.ge %here, %from : i64
      %1 = elem.lt %here, %to : i64
      %in = elem.and %0, %1 : i1
      %name = kernel.load %n[%i] if %in else %zero : i64
      %row = kernel.bound %name, 5 : i64
      %all = kernel.broadcast %in : i1 to vector<4xi1>
      %v = kernel.load %x[%j + %row * 4] if %all else %nothing : vector<4xf32>
      %w = elem.select %all, %v, %nothing : vector<4xf32>
      kernel.yield %w : vector<4xf32>
    } : vector<4xf32>
    kernel.store %s, %o[%p * 4 + %j] : vector<4xf32>
  }
}
func.func @main(%x : tensor<5x4xf32>, %n : tensor<9xi64>, %ends : tensor<3xi64>) -> tensor<2x4xf32> {
  %y = kernel.launch @bag(%x, %n, %ends) : (tensor<5x4xf32>, tensor<9xi64>, tensor<3xi64>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----
// Lanes along the axis, another condition that stays, and one end only: the least of what counts, and how many do.

// CHECK-LABEL: kernel.func @lanes
// CHECK: kernel.reduce minimum (%{{.*}} = 0 to min(%{{.*}}, 40) lanes 8) {
// CHECK: elem.ne
// CHECK: elem.select
// CHECK: kernel.reduce sum (%{{.*}} = 0 to min(%{{.*}}, 40) lanes 8) {
// CHECK-NOT: elem.lt
// CHECK: elem.convert %{{.*}} : vector<8xi1> to vector<8xi64>
kernel.func @lanes(%n : !kernel.ptr<i64>, %end : !kernel.ptr<i64>) outs(%o : !kernel.ptr<i64>, %c : !kernel.ptr<i64>)
    schedule #kernel.schedule<grid = []> {
  %last = kernel.load %end[0] : i64
  %b = kernel.bound %last, 41 : i64
  %to = kernel.index [%b] : i64
  %limit = kernel.broadcast %to : i64 to vector<8xi64>
  %pad = elem.constant 3 : vector<8xi64>
  %zero = elem.constant 0 : vector<8xi64>
  %most = elem.constant 9223372036854775807 : vector<8xi64>
  %s = kernel.reduce minimum (%i = 0 to 40 lanes 8) {
    %here = kernel.index [%i] : vector<8xi64>
    %1 = elem.lt %here, %limit : vector<8xi64>
    %name = kernel.load %n[%i] if %1 else %zero : vector<8xi64>
    %2 = elem.ne %name, %pad : vector<8xi64>
    %in = elem.and %1, %2 : vector<8xi1>
    %w = elem.select %in, %here, %most : vector<8xi64>
    kernel.yield %w : vector<8xi64>
  } : i64
  kernel.store %s, %o[0] : i64
  %k = kernel.reduce sum (%i = 0 to 40 lanes 8) {
    %here = kernel.index [%i] : vector<8xi64>
    %1 = elem.lt %here, %limit : vector<8xi64>
    %w = elem.convert %1 : vector<8xi1> to vector<8xi64>
    kernel.yield %w : vector<8xi64>
  } : i64
  kernel.store %k, %c[0] : i64
}
func.func @main(%n : tensor<40xi64>, %end : tensor<1xi64>) -> (tensor<1xi64>, tensor<1xi64>) {
  %y, %z = kernel.launch @lanes(%n, %end) : (tensor<40xi64>, tensor<1xi64>) -> (tensor<1xi64>, tensor<1xi64>)
  func.return %y, %z : tensor<1xi64>, tensor<1xi64>
}
