// RUN: cuesta-opt %s -p "fuse-products" --split-input-file

// What follows takes the sum before it is rounded. On a CUDA device the nest says how big its tiles are.
// CHECK-NOT: extern
// CHECK:      loops.nest (%i : 20, %j : 24) outs({{.*}}) schedule #loops.schedule<rows = 32, columns = 32, depth = 32, warps = 4, stages = 4, group = 8> {
// CHECK-NEXT:   %{{.*}} = loops.reduce sum (%k : 32) {
// CHECK-NEXT:     %[[A:.*]] = loops.load %a[%i, %k]
// CHECK-NEXT:     %[[AW:.*]] = elem.convert %[[A]] : bf16 to f32
// CHECK-NEXT:     %[[B:.*]] = loops.load %b[%k, %j]
// CHECK-NEXT:     %[[BW:.*]] = elem.convert %[[B]] : bf16 to f32
// CHECK-NEXT:     elem.mul %[[AW]], %[[BW]] : f32
// CHECK:        } : f32
// CHECK-NEXT:   elem.tanh
func.func @main(%a : tensor<20x32xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<32x24xbf16, #aten.layout<device = "cuda:0">>) -> tensor<20x24xbf16, #aten.layout<device = "cuda:0">> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<20x32xbf16, #aten.layout<device = "cuda:0">>, tensor<32x24xbf16, #aten.layout<device = "cuda:0">>) -> tensor<20x24xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.nest (%i : 20, %j : 24) outs(%o : tensor<20x24xbf16, #aten.layout<device = "cuda:0">>) {
    %0 = loops.load %m[%i, %j] : tensor<20x24xbf16, #aten.layout<device = "cuda:0">>
    %1 = elem.convert %0 : bf16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to bf16
    loops.store %3, %o[%i, %j] : tensor<20x24xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<20x24xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// A bias; a transposed weight, read where it lies; another shape of the domain; the product is needed elsewhere, too.
// CHECK:      %y, %m = loops.nest (%b : 2, %i : 10, %j : 24) outs(%o: tensor<2x10x24xf16>, %{{.*}}: tensor<20x24xf16>) {
// CHECK:        loops.load %a[%b * 10 + %i, %k] : tensor<20x32xf16>
// CHECK:        loops.load %w[%j, %k] : tensor<24x32xf16>
// CHECK:      } : f32
// CHECK:      %[[BIAS:.*]] = loops.load %bias[%j]
// CHECK:      elem.add
// CHECK:      %[[R:.*]] = elem.convert %{{.*}} : f32 to f16
// CHECK-NEXT: loops.store %[[R]], %{{.*}}[%b * 10 + %i, %j] : tensor<20x24xf16>
// CHECK:      func.return %y, %m
func.func @main(%a : tensor<20x32xf16>, %w : tensor<24x32xf16>, %bias : tensor<24xf16>) -> (tensor<2x10x24xf16>, tensor<20x24xf16>) {
  %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<24x32xf16> to tensor<32x24xf16, #aten.layout<strides = [1, 32]>>
  %m = loops.extern pure "aten.addmm.default"(%bias, %a, %t) : (tensor<24xf16>, tensor<20x32xf16>, tensor<32x24xf16, #aten.layout<strides = [1, 32]>>) -> tensor<20x24xf16>
  %y = loops.nest (%b : 2, %i : 10, %j : 24) outs(%o : tensor<2x10x24xf16>) {
    %0 = loops.load %m[%b * 10 + %i, %j] : tensor<20x24xf16>
    %1 = elem.convert %0 : f16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to f16
    loops.store %3, %o[%b, %i, %j] : tensor<2x10x24xf16>
  }
  func.return %y, %m : tensor<2x10x24xf16>, tensor<20x24xf16>
}

// -----
// Batched, and nothing follows.
// CHECK:      %m = loops.nest (%{{.*}} : 3, %{{.*}} : 20, %{{.*}} : 24)
// CHECK:        loops.reduce sum (%k : 32) {
// CHECK:      func.return %m : tensor<3x20x24xbf16>
func.func @main(%a : tensor<3x20x32xbf16>, %b : tensor<3x32x24xbf16>) -> tensor<3x20x24xbf16> {
  %m = loops.extern pure "aten.bmm.default"(%a, %b) : (tensor<3x20x32xbf16>, tensor<3x32x24xbf16>) -> tensor<3x20x24xbf16>
  func.return %m : tensor<3x20x24xbf16>
}

// -----
// What is not converted to f32 takes the rounded product.
// CHECK:      %[[R:.*]] = elem.convert %{{.*}} : f32 to bf16
// CHECK-NEXT: elem.neg %[[R]] : bf16
func.func @main(%a : tensor<20x32xbf16>, %b : tensor<32x24xbf16>) -> tensor<20x24xbf16> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<20x32xbf16>, tensor<32x24xbf16>) -> tensor<20x24xbf16>
  %y = loops.nest (%i : 20, %j : 24) outs(%o : tensor<20x24xbf16>) {
    %0 = loops.load %m[%i, %j] : tensor<20x24xbf16>
    %1 = elem.neg %0 : bf16
    loops.store %1, %o[%i, %j] : tensor<20x24xbf16>
  }
  func.return %y : tensor<20x24xbf16>
}

// -----
// What only gives a factor is done where the factor is read, and rounded as it was: here a cast of the weight, through
// a view, and a scale of rows.
// CHECK:      func.func @main(%x: tensor<20x32xf16>, %s: tensor<20xf16>, %w: tensor<24x32xf32>)
// CHECK-NEXT: %m = loops.nest
// CHECK-NEXT:   loops.reduce sum (%k : 32) {
// CHECK:          loops.load %x[%{{.*}}, %k]
// CHECK:          loops.load %s[%{{.*}}]
// CHECK:          %[[A:.*]] = elem.convert %{{.*}} : f32 to f16
// CHECK-NEXT:     elem.convert %[[A]] : f16 to f32
// CHECK:          loops.load %w[%{{.*}}, %k]
// CHECK-NEXT:     %[[B:.*]] = elem.convert %{{.*}} : f32 to f16
// CHECK-NEXT:     elem.convert %[[B]] : f16 to f32
// CHECK-NEXT:     elem.mul
// CHECK:      func.return %m
func.func @main(%x : tensor<20x32xf16>, %s : tensor<20xf16>, %w : tensor<24x32xf32>) -> tensor<20x24xf16> {
  %a = loops.nest (%i : 20, %j : 32) outs(%o : tensor<20x32xf16>) {
    %0 = loops.load %x[%i, %j] : tensor<20x32xf16>
    %1 = elem.convert %0 : f16 to f32
    %2 = loops.load %s[%i] : tensor<20xf16>
    %3 = elem.convert %2 : f16 to f32
    %4 = elem.mul %1, %3 : f32
    %5 = elem.convert %4 : f32 to f16
    loops.store %5, %o[%i, %j] : tensor<20x32xf16>
  }
  %b = loops.nest (%i : 24, %j : 32) outs(%o : tensor<24x32xf16>) {
    %0 = loops.load %w[%i, %j] : tensor<24x32xf32>
    %1 = elem.convert %0 : f32 to f16
    loops.store %1, %o[%i, %j] : tensor<24x32xf16>
  }
  %t = loops.view %b by (d0, d1) -> (d1, d0) : tensor<24x32xf16> to tensor<32x24xf16, #aten.layout<strides = [1, 32]>>
  %m = loops.extern pure "aten.mm.default"(%a, %t) : (tensor<20x32xf16>, tensor<32x24xf16, #aten.layout<strides = [1, 32]>>) -> tensor<20x24xf16>
  func.return %m : tensor<20x24xf16>
}

// -----
// One after the other: the second reads what the first has become.
// CHECK:      func.func @main(%x: tensor<20x32xf16>, %v: tensor<32x24xf16>
// CHECK-NEXT: %[[Y:.*]] = loops.nest (%i : 20, %j : 24)
// CHECK:        loops.load %x[%i, %k]
// CHECK:      %[[N:.*]] = loops.nest
// CHECK:        loops.load %[[Y]][%{{.*}}, %k]
// CHECK:      func.return %[[N]]
func.func @main(%x : tensor<20x32xf16>, %v : tensor<32x24xf16>, %w : tensor<24x16xf16>) -> tensor<20x16xf16> {
  %m = loops.extern pure "aten.mm.default"(%x, %v) : (tensor<20x32xf16>, tensor<32x24xf16>) -> tensor<20x24xf16>
  %y = loops.nest (%i : 20, %j : 24) outs(%o : tensor<20x24xf16>) {
    %0 = loops.load %m[%i, %j] : tensor<20x24xf16>
    %1 = elem.neg %0 : f16
    loops.store %1, %o[%i, %j] : tensor<20x24xf16>
  }
  %n = loops.extern pure "aten.mm.default"(%y, %w) : (tensor<20x24xf16>, tensor<24x16xf16>) -> tensor<20x16xf16>
  func.return %n : tensor<20x16xf16>
}

// -----
// Both terms are scaled, and what follows takes the sum before it is rounded. What is taken 0 times is not read.
// CHECK:      loops.reduce sum
// CHECK:      %[[A:.*]] = elem.constant 0.5 : f32
// CHECK-NEXT: %[[S:.*]] = elem.mul %{{.*}}, %[[A]] : f32
// CHECK:      loops.load %c[%j]
// CHECK:      %[[B:.*]] = elem.constant 2.0 : f32
// CHECK-NEXT: %[[C:.*]] = elem.mul %{{.*}}, %[[B]] : f32
// CHECK-NEXT: %[[T:.*]] = elem.add %[[S]], %[[C]] : f32
// CHECK-NEXT: elem.tanh %[[T]]
// CHECK:      loops.reduce sum
// CHECK:      elem.constant 3.0 : f32
// CHECK-NOT:  loops.load
// CHECK:      func.return
func.func @main(%c : tensor<24xf16>, %a : tensor<20x32xf16>, %b : tensor<32x24xf16>) -> (tensor<20x24xf16>, tensor<20x24xf16>) {
  %m = loops.extern pure "aten.addmm.default"(%c, %a, %b, beta = 2, alpha = 0.5) : (tensor<24xf16>, tensor<20x32xf16>, tensor<32x24xf16>) -> tensor<20x24xf16>
  %y = loops.nest (%i : 20, %j : 24) outs(%o : tensor<20x24xf16>) {
    %0 = loops.load %m[%i, %j] : tensor<20x24xf16>
    %1 = elem.convert %0 : f16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to f16
    loops.store %3, %o[%i, %j] : tensor<20x24xf16>
  }
  %n = loops.extern pure "aten.addmm.default"(%c, %a, %b, beta = 0, alpha = 3) : (tensor<24xf16>, tensor<20x32xf16>, tensor<32x24xf16>) -> tensor<20x24xf16>
  func.return %y, %n : tensor<20x24xf16>, tensor<20x24xf16>
}
