// RUN: cuesta-opt %s -p join-products --split-input-file
// ROUNDTRIP

// What is made of a product point by point, and multiplied again, from either side: a nest for each walk, and nothing
// between is stored. It is rounded as a factor.
// CHECK-NOT:  loops.extern
// CHECK:      %x = loops.nest (%[[H:[0-9]+]] : 2, %[[J:[0-9]+]] : 64, %[[D:[0-9]+]] : 16)
// CHECK-SAME: depth
// CHECK:        loops.reduce sum (%[[I:[^ ]+]] : 64)
// CHECK:          loops.reduce sum (%[[E:[^ ]+]] : 16)
// CHECK-NEXT:       loops.load %q[%[[H]], %[[I]], %[[E]]]
// CHECK:            loops.load %k[%[[H]], %[[E]], %[[J]]]
// CHECK:          loops.load %m[%[[H]], %[[I]]]
// CHECK:          elem.exp
// CHECK:          loops.load %g[%[[H]], %[[I]], %[[D]]]
// CHECK:          elem.convert %{{.*}} : f32 to bf16
// CHECK:      %y = loops.nest (%[[H2:[0-9]+]] : 2, %[[I2:[0-9]+]] : 64, %{{.*}} : 16)
// CHECK:        loops.reduce sum (%[[J2:[^ ]+]] : 64)
// CHECK:          loops.load %k[%[[H2]], %{{.*}}, %[[J2]]]
// CHECK-NOT:  loops.nest
// CHECK:      func.return
func.func @main(%q : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>, %m : tensor<2x64xf32, #aten.layout<device = "cuda:0">>, %g : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%h : 2, %i : 64, %j : 64) outs(%r : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %a = loops.load %s[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %m[%h, %i] : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
    %d = elem.sub %b, %c : f32
    %e = elem.exp %d : f32
    %f = elem.convert %e : f32 to bf16
    loops.store %f, %r[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %p by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>
  %x = loops.extern pure "aten.bmm.default"(%t, %g) : (tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.extern pure "aten.bmm.default"(%p, %w) : (tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %x, %y : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Two that walk along the same axis are one nest, which computes what is between once in a step.
// CHECK:      %{{.*}}, %{{.*}} = loops.nest (%{{.*}} : 2, %{{.*}} : 64, %{{.*}} : 16) outs({{.*}}) schedule
// CHECK-NOT:  loops.nest
// CHECK-NOT:  loops.extern
// CHECK:      func.return
func.func @main(%q : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>, %m : tensor<2x64xf32, #aten.layout<device = "cuda:0">>, %g : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%h : 2, %i : 64, %j : 64) outs(%r : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %a = loops.load %s[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %m[%h, %i] : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
    %d = elem.sub %b, %c : f32
    %e = elem.exp %d : f32
    %f = elem.convert %e : f32 to bf16
    loops.store %f, %r[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %p by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>
  %x = loops.extern pure "aten.bmm.default"(%t, %g) : (tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %z = loops.extern pure "aten.bmm.default"(%t, %w) : (tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %x, %z : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// A sum along a row of something else is a nest of its own: who walks along the rows would compute it in every step.
// CHECK:      %[[R:[^ ]+]] = loops.nest (%{{.*}} : 2, %{{.*}} : 64) outs
// CHECK:        loops.reduce sum
// CHECK:      %x = loops.nest
// CHECK:        loops.load %[[R]]
// CHECK-NOT:  loops.extern
// CHECK:      func.return
func.func @main(%q : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>, %m : tensor<2x64xf32, #aten.layout<device = "cuda:0">>, %g : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">> {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%h : 2, %i : 64) outs(%r : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %c = loops.reduce sum (%d : 16) {
      %a = loops.load %g[%h, %i, %d] : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
      %b = elem.convert %a : bf16 to f32
      loops.yield %b : f32
    } : f32
    loops.for (%j : 64) {
      %a = loops.load %s[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
      %b = elem.convert %a : bf16 to f32
      %e = elem.sub %b, %c : f32
      %f = elem.convert %e : f32 to bf16
      loops.store %f, %r[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %t = loops.view %p by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>
  %x = loops.extern pure "aten.bmm.default"(%t, %g) : (tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %x : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
}
