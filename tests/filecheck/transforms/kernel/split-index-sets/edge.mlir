// RUN: cuesta-opt %s --split-input-file -p split-index-sets | filecheck %s
// RUN: cuesta-opt %s --split-input-file -p "split-index-sets,split-index-sets" | filecheck %s
// Nothing but the whole is in range: the condition goes, and the loop stays one. Twice is as good as once.

// CHECK-LABEL: kernel.func @always
// CHECK: kernel.for (%{{.*}} = 0 to 20) {
// CHECK-NOT: if
// CHECK-NOT: kernel.for
kernel.func @always(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  %limit = elem.constant 19 : i64
  %nothing = elem.constant 0.0 : f32
  kernel.for (%i = 0 to 20) {
    %r = kernel.index [%i] : i64
    %0 = elem.le %r, %limit : i64
    %1 = kernel.load %x[%i] if %0 else %nothing : f32
    kernel.store %1, %o[%i] : f32
  }
}
func.func @main(%x : tensor<20xf32>) -> tensor<20xf32> {
  %y = kernel.launch @always(%x) : (tensor<20xf32>) -> tensor<20xf32>
  func.return %y : tensor<20xf32>
}

// -----
// An axis whose length is not known is left alone, and so is a condition on what is not linear.

// CHECK-LABEL: kernel.func @unknown
// CHECK: kernel.for (%{{.*}} = 0 to s0) {
// CHECK-COUNT-1: kernel.load {{.*}} if
// CHECK-NOT: kernel.for
kernel.func @unknown(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0)
    schedule #kernel.schedule<grid = []> {
  %limit = elem.constant 20 : i64
  %nothing = elem.constant 0.0 : f32
  kernel.for (%i = 0 to s0) {
    %r = kernel.index [%i] : i64
    %0 = elem.lt %r, %limit : i64
    %1 = kernel.load %x[%i] if %0 else %nothing : f32
    kernel.store %1, %o[%i] : f32
  }
}
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>)
    -> tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
    attributes { sym.symbols = #sym.symbols<s0 in [1, 64]> } {
  %y = kernel.launch @unknown(%x) : (tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>)
    -> tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
  func.return %y : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
}

// -----
// CHECK-LABEL: kernel.func @wrapped
// CHECK: kernel.for (%{{.*}} = 0 to 40) {
// CHECK: kernel.load {{.*}} if
// CHECK-NOT: kernel.for
kernel.func @wrapped(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  %limit = elem.constant 9 : i64
  %nothing = elem.constant 0.0 : f32
  kernel.for (%i = 0 to 40) {
    %r = kernel.index [%i mod 10] : i64
    %0 = elem.lt %r, %limit : i64
    %1 = kernel.load %x[%i] if %0 else %nothing : f32
    kernel.store %1, %o[%i] : f32
  }
}
func.func @main(%x : tensor<40xf32>) -> tensor<40xf32> {
  %y = kernel.launch @wrapped(%x) : (tensor<40xf32>) -> tensor<40xf32>
  func.return %y : tensor<40xf32>
}

// -----
// A load that had its lanes from the condition alone: all of them get the one number.

// CHECK-LABEL: kernel.func @one_number
// CHECK: %[[ONE:.*]] = kernel.load %n[0] : f32
// CHECK-NEXT: kernel.broadcast %[[ONE]] : f32 to vector<4xf32>
kernel.func @one_number(%x : !kernel.ptr<f32>, %n : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = []> {
  %limit = elem.constant 8 : vector<4xi64>
  %nothing = elem.constant 0.0 : vector<4xf32>
  kernel.for (%i = 0 to 8 lanes 4) {
    %r = kernel.index [%i] : vector<4xi64>
    %0 = elem.lt %r, %limit : vector<4xi64>
    %1 = kernel.load %x[%i] if %0 else %nothing : vector<4xf32>
    %2 = kernel.load %n[0] if %0 else %nothing : vector<4xf32>
    %3 = elem.div %1, %2 : vector<4xf32>
    kernel.store %3, %o[%i] : vector<4xf32>
  }
}
func.func @main(%x : tensor<8xf32>, %n : tensor<1xf32>) -> tensor<8xf32> {
  %y = kernel.launch @one_number(%x, %n) : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}
