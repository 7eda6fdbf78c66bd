// RUN: cuesta-opt %s --machine "processors=4" -p "split-scatters{target=cuda},spread-scans{target=cuda},loops-to-kernel{target=cuda}" --split-input-file

// A scatter is two kernels: what it starts from, and atomic changes of that, a lane for every point of the index.
// CHECK:      kernel.func @copy_0() outs(%o: !kernel.ptr<f32>) schedule
// CHECK:        kernel.store {{.*}} %o[%{{.*}}] : vector<1024xf32>
// CHECK:      kernel.func @scatter_1(%k: !kernel.ptr<i64>, %x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) updates 1 schedule
// CHECK-NEXT:   %p = kernel.program_id 0
// CHECK-NEXT:   kernel.for (%[[I:.*]] = %p * 1024 to min(%p * 1024 + 1024, 1200) lanes 1024) {
// CHECK-NEXT:     %n = kernel.load %k[%[[I]] floordiv 20] : vector<1024xi64>
// CHECK-NEXT:     %r = kernel.bound %n, 90 : vector<1024xi64>
// CHECK-NEXT:     %a = kernel.load %x[%[[I]]] : vector<1024xf32>
// CHECK-NEXT:     kernel.atomic sum %a, %o[%r * 20 + (%[[I]] mod 20)] : vector<1024xf32>
// CHECK:      %[[F:.*]] = kernel.launch @copy_0() :
// CHECK-NEXT: kernel.launch @scatter_1(%k, %x, %[[F]]) :
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
    }
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine sum %a, %o[%r, %j] : tensor<90x20xf32>
    }
  }
  func.return %y : tensor<90x20xf32>
}

// -----
// Where neither the address nor the value varies along the lanes, every lane makes its change all the same.
// CHECK:      kernel.atomic sum %{{.*}}, %o[0] if %{{.*}} : vector<512xi32>
func.func @main(%k : tensor<300xi32>) -> tensor<1xi32> {
  %y = loops.nest () outs(%o : tensor<1xi32>) {
    loops.for (%i : 1) {
      %zero = elem.constant 0 : i32
      loops.store %zero, %o[%i] : tensor<1xi32>
    }
    loops.scan (%i : 300) {
      %one = elem.constant 1 : i32
      loops.combine sum %one, %o[0] : tensor<1xi32>
    }
  }
  func.return %y : tensor<1xi32>
}

// -----
// Near miss: the last assignment wins, so the points come in order.
// CHECK-NOT:  kernel.atomic
// CHECK:      kernel.combine assign
func.func @main(%x : tensor<60xf32>, %k : tensor<60xi64>) -> tensor<90xf32> {
  %y = loops.nest () outs(%o : tensor<90xf32>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i] : tensor<90xf32>
    }
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i] : tensor<60xf32>
      loops.combine assign %a, %o[%r] : tensor<90xf32>
    }
  }
  func.return %y : tensor<90xf32>
}

// -----
// Near miss: there is no atomic sum of bf16.
// CHECK-NOT:  kernel.atomic
// CHECK:      kernel.combine sum
func.func @main(%x : tensor<60xbf16>, %k : tensor<60xi64>) -> tensor<90xbf16> {
  %y = loops.nest () outs(%o : tensor<90xbf16>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : bf16
      loops.store %zero, %o[%i] : tensor<90xbf16>
    }
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i] : tensor<60xbf16>
      loops.combine sum %a, %o[%r] : tensor<90xbf16>
    }
  }
  func.return %y : tensor<90xbf16>
}

// -----
// Near miss: a later stage reads, in the same nest, what the scan changed, and something it read before. It stays whole.
// CHECK:      kernel.func @{{.*}} outs(%o: !kernel.ptr<f32>, %q: !kernel.ptr<f32>) schedule
// CHECK-NOT:  kernel.atomic
// CHECK:      kernel.combine sum
func.func @main(%x : tensor<60x4xf32>, %k : tensor<60xi64>) -> (tensor<90x4xf32>, tensor<4xf32>) {
  %y, %z = loops.nest (%j : 4) outs(%o : tensor<90x4xf32>, %q : tensor<4xf32>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<90x4xf32>
    }
    %before = loops.load %o[3, %j] : tensor<90x4xf32>
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x4xf32>
      loops.combine sum %a, %o[%r, %j] : tensor<90x4xf32>
    }
    %after = loops.load %o[3, %j] : tensor<90x4xf32>
    %d = elem.sub %after, %before : f32
    loops.store %d, %q[%j] : tensor<4xf32>
  }
  func.return %y, %z : tensor<90x4xf32>, tensor<4xf32>
}
