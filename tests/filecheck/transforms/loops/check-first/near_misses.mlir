// RUN: cuesta-opt %s -p "check-first" --split-input-file

// Near miss: nothing is written to.
// CHECK-NOT: checked
func.func @main(%c : tensor<8xf32>, %p : tensor<2xi64>) -> tensor<2xf32> {
  %y = loops.nest (%r : 2) outs(%o : tensor<2xf32>) {
    %j = loops.load %p[%r] : tensor<2xi64>
    %k = loops.bound %j, 8 wrap : i64
    %v = loops.load %c[%k] : tensor<8xf32>
    loops.store %v, %o[%r] : tensor<2xf32>
  }
  func.return %y : tensor<2xf32>
}

// -----

// Near misses: an index that a reduction gives, or that the nest has stored; a loop beside the index that runs never; more indices than elements to write.
// CHECK-NOT: checked
func.func @main(%c : tensor<8xf32>, %p : tensor<40xi64>) -> (tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2x0xf32>, tensor<40xf32>, tensor<8xf32>) attributes {aten.writes_to = [0 : i64]} {
  %y = loops.nest (%r : 2) outs(%o : tensor<2xf32>) {
    %j = loops.reduce maximum (%s : 8) {
      %a = loops.load %p[%r * 8 + %s] : tensor<40xi64>
      loops.yield %a : i64
    } : i64
    %k = loops.bound %j, 8 wrap : i64
    %v = loops.load %c[%k] : tensor<8xf32>
    loops.store %v, %o[%r] : tensor<2xf32>
  }
  %y2, %y3 = loops.nest (%r : 2) outs(%q : tensor<2xi64>, %o : tensor<2xf32>) {
    %a = loops.load %p[%r] : tensor<40xi64>
    loops.store %a, %q[%r] : tensor<2xi64>
    %j = loops.load %q[%r] : tensor<2xi64>
    %k = loops.bound %j, 8 wrap : i64
    %v = loops.load %c[%k] : tensor<8xf32>
    loops.store %v, %o[%r] : tensor<2xf32>
  }
  %y4 = loops.nest (%r : 2, %s : 0) outs(%o : tensor<2x0xf32>) {
    %j = loops.load %p[%r] : tensor<40xi64>
    %k = loops.bound %j, 8 wrap : i64
    %v = loops.load %c[%k] : tensor<8xf32>
    loops.store %v, %o[%r, %s] : tensor<2x0xf32>
  }
  %y5 = loops.nest (%r : 40) outs(%o : tensor<40xf32>) {
    %j = loops.load %p[%r] : tensor<40xi64>
    %k = loops.bound %j, 8 wrap : i64
    %v = loops.load %c[%k] : tensor<8xf32>
    loops.store %v, %o[%r] : tensor<40xf32>
  }
  %z = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %v = loops.load %c[%i] : tensor<8xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i] : tensor<8xf32>
  }
  func.return %y, %y2, %y3, %y4, %y5, %z : tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2x0xf32>, tensor<40xf32>, tensor<8xf32>
}

// -----

// Near miss: on a GPU a failed check loses the context, and every tensor with it.
// CHECK-NOT: checked
func.func @main(%c : tensor<8xf32, #aten.layout<device = "cuda:0">>, %p : tensor<2xi64, #aten.layout<device = "cuda:0">>) -> (tensor<2xf32, #aten.layout<device = "cuda:0">>, tensor<8xf32, #aten.layout<device = "cuda:0">>) attributes {aten.writes_to = [0 : i64]} {
  %y = loops.nest (%r : 2) outs(%o : tensor<2xf32, #aten.layout<device = "cuda:0">>) {
    %j = loops.load %p[%r] : tensor<2xi64, #aten.layout<device = "cuda:0">>
    %k = loops.bound %j, 8 wrap : i64
    %v = loops.load %c[%k] : tensor<8xf32, #aten.layout<device = "cuda:0">>
    loops.store %v, %o[%r] : tensor<2xf32, #aten.layout<device = "cuda:0">>
  }
  %z = loops.nest (%i : 8) outs(%o : tensor<8xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %c[%i] : tensor<8xf32, #aten.layout<device = "cuda:0">>
    %w = elem.neg %v : f32
    loops.store %w, %o[%i] : tensor<8xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y, %z : tensor<2xf32, #aten.layout<device = "cuda:0">>, tensor<8xf32, #aten.layout<device = "cuda:0">>
}
