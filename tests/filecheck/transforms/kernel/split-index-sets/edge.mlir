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
