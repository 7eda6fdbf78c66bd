// RUN: cuesta-opt %s -p "shift-scans" --split-input-file

// The sum of all before a point, with something else in front.
// CHECK:      %y = loops.nest (%i : 6) outs(%o: tensor<6x41xf32>) {
// CHECK-NEXT:   loops.scan (%k : 41) {
// CHECK:          [[B:%[0-9a-z_]+]] = elem.ge %
// CHECK:          [[A:%[0-9a-z_]+]] = loops.load %x[%i, %k - 1] if [[B]] else
// CHECK:          [[N:%[0-9a-z_]+]] = elem.neg [[A]]
// CHECK:          [[V:%[0-9a-z_]+]] = elem.select [[B]], [[N]],
// CHECK-NEXT:     [[R:%[0-9a-z_]+]] = loops.running sum [[V]]
// CHECK:          [[S:%[0-9a-z_]+]] = elem.select {{.*}}, [[R]],
// CHECK-NEXT:     [[D:%[0-9a-z_]+]] = elem.mul [[S]], [[S]]
// CHECK-NEXT:     loops.store [[D]], %o[%i, %k]
func.func @main(%x : tensor<6x40xf32>) -> tensor<6x41xf32> {
  %t = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%i, %j] : tensor<6x40xf32>
      %n = elem.neg %a : f32
      %r = loops.running sum %n : f32
      loops.store %r, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  %y = loops.nest (%i : 6, %k : 41) outs(%o : tensor<6x41xf32>) {
    %one = elem.constant 1 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %one : i64
    %s = loops.load %t[%i, %k - 1] if %c else %two : tensor<6x40xf32>
    %d = elem.mul %s, %s : f32
    loops.store %d, %o[%i, %k] : tensor<6x41xf32>
  }
  func.return %y : tensor<6x41xf32>
}

// -----

// Along the first axis, of integers, stored transposed, three further on, of which the last sum is not read; the mask
// leaves out more than that.
// CHECK:      %y = loops.nest (%m : 6) outs(%o: tensor<12x6xi64>) {
// CHECK-NEXT:   loops.scan (%k : 12) {
// CHECK:          loops.load %x[%m, %k - 3] if
// CHECK:          loops.running sum
// CHECK:          loops.store {{.*}}, %o[%k, %m]
func.func @main(%x : tensor<6x10xi64>) -> tensor<12x6xi64> {
  %t = loops.nest (%i : 6) outs(%o : tensor<10x6xi64>) {
    loops.scan (%j : 10) {
      %a = loops.load %x[%i, %j] : tensor<6x10xi64>
      %r = loops.running sum %a : i64
      loops.store %r, %o[%j, %i] : tensor<10x6xi64>
    }
  }
  %y = loops.nest (%k : 12, %m : 6) outs(%o : tensor<12x6xi64>) {
    %five = elem.constant 5 : i64
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %five : i64
    %s = loops.load %t[%k - 3, %m] if %c else %p : tensor<10x6xi64>
    loops.store %s, %o[%k, %m] : tensor<12x6xi64>
  }
  func.return %y : tensor<12x6xi64>
}
