// RUN: cuesta-opt %s -p "fuse-products" --split-input-file

// f64, which no matrix unit takes, and which is no sum of few pieces.
// CHECK: loops.extern pure "aten.mm.default"
func.func @main(%a : tensor<20x32xf64>, %b : tensor<32x24xf64>) -> tensor<20x24xf64> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<20x32xf64>, tensor<32x24xf64>) -> tensor<20x24xf64>
  func.return %m : tensor<20x24xf64>
}

// -----
// The sum taken 0 times.
// CHECK: loops.extern pure "aten.addmm.default"
func.func @main(%c : tensor<24xf16>, %a : tensor<20x32xf16>, %b : tensor<32x24xf16>) -> tensor<20x24xf16> {
  %m = loops.extern pure "aten.addmm.default"(%c, %a, %b, alpha = 0) : (tensor<24xf16>, tensor<20x32xf16>, tensor<32x24xf16>) -> tensor<20x24xf16>
  func.return %m : tensor<20x24xf16>
}

// -----
// The reader has rows: the product becomes a nest, the reader stays.
// CHECK:  %m = loops.nest (%{{.*}} : 20, %{{.*}} : 24)
// CHECK:  loops.reduce sum (%k : 32)
// CHECK:  %y = loops.nest (%i : 20)
// CHECK:  loops.load %m[%i, %j]
func.func @main(%a : tensor<20x32xf16>, %b : tensor<32x24xf16>) -> tensor<20xf16> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<20x32xf16>, tensor<32x24xf16>) -> tensor<20x24xf16>
  %y = loops.nest (%i : 20) outs(%o : tensor<20xf16>) {
    %s = loops.reduce maximum (%j : 24) {
      %0 = loops.load %m[%i, %j] : tensor<20x24xf16>
      loops.yield %0 : f16
    } : f16
    loops.store %s, %o[%i] : tensor<20xf16>
  }
  func.return %y : tensor<20xf16>
}

// -----
// The reader reads elements twice, which would compute them twice.
// CHECK:  %m = loops.nest (%{{.*}} : 20, %{{.*}} : 24)
// CHECK:  %y = loops.nest (%i : 20, %j : 48)
// CHECK:  loops.load %m[%i, %j mod 24]
func.func @main(%a : tensor<20x32xf16>, %b : tensor<32x24xf16>) -> tensor<20x48xf16> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<20x32xf16>, tensor<32x24xf16>) -> tensor<20x24xf16>
  %y = loops.nest (%i : 20, %j : 48) outs(%o : tensor<20x48xf16>) {
    %0 = loops.load %m[%i, %j mod 24] : tensor<20x24xf16>
    loops.store %0, %o[%i, %j] : tensor<20x48xf16>
  }
  func.return %y : tensor<20x48xf16>
}

// -----
// Somebody reads the product before the pointwise nest stands.
// CHECK:  %m = loops.nest (%{{.*}} : 20, %{{.*}} : 24)
// CHECK:  loops.extern pure "aten.sort.default"(%m)
// CHECK:  loops.load %m[%i, %j]
func.func @main(%a : tensor<20x32xf16>, %b : tensor<32x24xf16>) -> (tensor<20x24xf16>, tensor<20x24xf16>) {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<20x32xf16>, tensor<32x24xf16>) -> tensor<20x24xf16>
  %s, %n = loops.extern pure "aten.sort.default"(%m) : (tensor<20x24xf16>) -> (tensor<20x24xf16>, tensor<20x24xi64>)
  %y = loops.nest (%i : 20, %j : 24) outs(%o : tensor<20x24xf16>) {
    %0 = loops.load %m[%i, %j] : tensor<20x24xf16>
    loops.store %0, %o[%i, %j] : tensor<20x24xf16>
  }
  func.return %y, %s : tensor<20x24xf16>, tensor<20x24xf16>
}

// -----
// What gives the factor is needed elsewhere, too; or twice.
// CHECK:      %a = loops.nest (%i : 20, %j : 20)
// CHECK:      %c = loops.nest (%i : 20, %j : 20)
// CHECK:      loops.reduce sum
// CHECK-NEXT:   loops.load %a[
// CHECK:        loops.load %w[
// CHECK:      loops.reduce sum
// CHECK-NEXT:   loops.load %c[
// CHECK:        loops.load %c[
// CHECK:      func.return %m, %n, %a
func.func @main(%x : tensor<20x20xf16>, %w : tensor<20x20xf16>) -> (tensor<20x20xf16>, tensor<20x20xf16>, tensor<20x20xf16>) {
  %a = loops.nest (%i : 20, %j : 20) outs(%o : tensor<20x20xf16>) {
    %0 = loops.load %x[%i, %j] : tensor<20x20xf16>
    %1 = elem.neg %0 : f16
    loops.store %1, %o[%i, %j] : tensor<20x20xf16>
  }
  %c = loops.nest (%i : 20, %j : 20) outs(%o : tensor<20x20xf16>) {
    %0 = loops.load %x[%i, %j] : tensor<20x20xf16>
    %1 = elem.abs %0 : f16
    loops.store %1, %o[%i, %j] : tensor<20x20xf16>
  }
  %m = loops.extern pure "aten.mm.default"(%a, %w) : (tensor<20x20xf16>, tensor<20x20xf16>) -> tensor<20x20xf16>
  %n = loops.extern pure "aten.mm.default"(%c, %c) : (tensor<20x20xf16>, tensor<20x20xf16>) -> tensor<20x20xf16>
  func.return %m, %n, %a : tensor<20x20xf16>, tensor<20x20xf16>, tensor<20x20xf16>
}
