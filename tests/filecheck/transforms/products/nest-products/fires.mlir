// RUN: cuesta-opt %s -p nest-products --split-input-file

// A layer: its weight, which a view transposes, is copied into strips of 32 columns; the bias is added to the sum.
// CHECK:      [[P:%.+]] = loops.nest ([[Q:%.+]] : 16, [[K:%.+]] : 256, [[C:%.+]] : 32) outs([[O:%.+]]: tensor<16x256x32xf32>) {
// CHECK-NEXT:   [[A:%.+]] = loops.load %w[[[Q]] * 32 + [[C]], [[K]]] : tensor<512x256xf32>
// CHECK-NEXT:   loops.store [[A]], [[O]][[[Q]], [[K]], [[C]]] : tensor<16x256x32xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %y = loops.nest ([[I:%.+]] : 512, [[Q:%.+]] : 16, [[C:%.+]] : 32) outs([[O:%.+]]: tensor<512x512xf32>) schedule #loops.schedule<lanes = 32, rows = 8> {
// CHECK-NEXT:   [[S:%.+]] = loops.reduce sum ([[K:%.+]] : 256) {
// CHECK-NEXT:     [[L:%.+]] = loops.load %x[[[I]], [[K]]] : tensor<512x256xf32>
// CHECK-NEXT:     [[R:%.+]] = loops.load [[P]][[[Q]], [[K]], [[C]]] : tensor<16x256x32xf32>
// CHECK-NEXT:     [[M:%.+]] = elem.mul [[L]], [[R]] : f32
// CHECK-NEXT:     loops.yield [[M]] : f32
// CHECK-NEXT:   } : f32
// CHECK-NEXT:   [[B:%.+]] = loops.load %b[[[Q]] * 32 + [[C]]] : tensor<512xf32>
// CHECK-NEXT:   [[T:%.+]] = elem.add [[S]], [[B]] : f32
// CHECK-NEXT:   loops.store [[T]], [[O]][[[I]], [[Q]] * 32 + [[C]]] : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %y
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<512x256xf32>, %w : tensor<512x256xf32>, %b : tensor<512xf32>) -> tensor<512x512xf32> {
    %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<512x256xf32> to tensor<256x512xf32, #aten.layout<strides = [1, 256]>>
    %y = loops.extern pure "aten.addmm.default"(%b, %x, %t) : (tensor<512xf32>, tensor<512x256xf32>, tensor<256x512xf32, #aten.layout<strides = [1, 256]>>) -> tensor<512x512xf32>
    func.return %y : tensor<512x512xf32>
  }
}

// -----

// Two gradients of weights, of one input: it is copied once. The factors of rows are read as they lie. Where there are 48
// columns, strips have 16.
// CHECK:      [[P:%.+]] = loops.nest ({{.*}} : 8, {{.*}} : 512, {{.*}} : 32)
// CHECK:      %u = loops.nest ([[I:%.+]] : 256, {{.*}}) outs({{.*}}) schedule #loops.schedule<lanes = 32, rows = 8>
// CHECK:        loops.load %g[[[K:%.+]], [[I]]] : tensor<512x256xf32>
// CHECK-NOT:  loops.nest ({{.*}} : 8, {{.*}} : 512, {{.*}} : 32)
// CHECK:      %v = loops.nest ([[I:%.+]] : 640, {{.*}}) outs({{.*}}) schedule #loops.schedule<lanes = 32, rows = 8>
// CHECK:      %n = loops.nest ({{.*}} : 512, {{.*}} : 3, {{.*}} : 16) outs({{.*}}) schedule #loops.schedule<lanes = 16, rows = 8>
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<512x256xf32>, %g : tensor<512x256xf32>, %h : tensor<512x640xf32>, %w : tensor<256x48xf32>) -> (tensor<256x256xf32>, tensor<640x256xf32>, tensor<512x48xf32>) {
    %a = loops.view %g by (d0, d1) -> (d1, d0) : tensor<512x256xf32> to tensor<256x512xf32, #aten.layout<strides = [1, 256]>>
    %c = loops.view %h by (d0, d1) -> (d1, d0) : tensor<512x640xf32> to tensor<640x512xf32, #aten.layout<strides = [1, 640]>>
    %u = loops.extern pure "aten.mm.default"(%a, %x) : (tensor<256x512xf32, #aten.layout<strides = [1, 256]>>, tensor<512x256xf32>) -> tensor<256x256xf32>
    %v = loops.extern pure "aten.mm.default"(%c, %x) : (tensor<640x512xf32, #aten.layout<strides = [1, 640]>>, tensor<512x256xf32>) -> tensor<640x256xf32>
    %n = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<512x256xf32>, tensor<256x48xf32>) -> tensor<512x48xf32>
    func.return %u, %v, %n : tensor<256x256xf32>, tensor<640x256xf32>, tensor<512x48xf32>
  }
}

// -----

// A batch, and a matrix that is added.
// CHECK:      loops.nest ({{.*}} : 6, {{.*}} : 2, {{.*}} : 32, {{.*}} : 32)
// CHECK:      %y = loops.nest ([[N:%.+]] : 6, [[I:%.+]] : 128, [[Q:%.+]] : 2, [[C:%.+]] : 32)
// CHECK:        loops.load %m[[[N]], [[I]], [[Q]] * 32 + [[C]]]
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<6x128x32xf32>, %w : tensor<6x32x64xf32>, %m : tensor<6x128x64xf32>) -> tensor<6x128x64xf32> {
    %y = loops.extern pure "aten.baddbmm.default"(%m, %x, %w) : (tensor<6x128x64xf32>, tensor<6x128x32xf32>, tensor<6x32x64xf32>) -> tensor<6x128x64xf32>
    func.return %y : tensor<6x128x64xf32>
  }
}

// -----

// A frozen weight is copied once for many calls: eight rows are enough.
// CHECK:      [[P:%.+]] = loops.nest ({{.*}} : 16, {{.*}} : 512, {{.*}} : 32)
// CHECK:      loops.nest ({{.*}} : 8, {{.*}} : 16, {{.*}} : 32) outs({{.*}}) schedule #loops.schedule<lanes = 32, rows = 8>
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<8x512xf32>, %w : tensor<512x512xf32>) -> tensor<8x512xf32> attributes {aten.frozen = [1 : i64]} {
    %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<512x512xf32> to tensor<512x512xf32, #aten.layout<strides = [1, 512]>>
    %y = loops.extern pure "aten.mm.default"(%x, %t) : (tensor<8x512xf32>, tensor<512x512xf32, #aten.layout<strides = [1, 512]>>) -> tensor<8x512xf32>
    func.return %y : tensor<8x512xf32>
  }
}

// -----

// Both terms are scaled; of the second call the matrix that it adds 0 times is not read.
// CHECK:      %y = loops.nest
// CHECK:        elem.constant 0.5 : f32
// CHECK:        loops.load %m[
// CHECK:        elem.constant 2.0 : f32
// CHECK:        elem.add
// CHECK:      %z = loops.nest
// CHECK:        elem.constant 3.0 : f32
// CHECK-NOT:    loops.load %m[
// CHECK:      func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<6x128x32xf32>, %w : tensor<6x32x64xf32>, %m : tensor<6x128x64xf32>) -> (tensor<6x128x64xf32>, tensor<6x128x64xf32>) {
    %y = loops.extern pure "aten.baddbmm.default"(%m, %x, %w, beta = 2, alpha = 0.5) : (tensor<6x128x64xf32>, tensor<6x128x32xf32>, tensor<6x32x64xf32>) -> tensor<6x128x64xf32>
    %z = loops.extern pure "aten.baddbmm.default"(%m, %x, %w, beta = 0, alpha = 3.0) : (tensor<6x128x64xf32>, tensor<6x128x32xf32>, tensor<6x32x64xf32>) -> tensor<6x128x64xf32>
    func.return %y, %z : tensor<6x128x64xf32>, tensor<6x128x64xf32>
  }
}

// -----

// Half as many registers hold the sums of four rows.
// CHECK: loops.nest ({{.*}} : 64, {{.*}} : 4, {{.*}} : 16) outs({{.*}}) schedule #loops.schedule<lanes = 16, rows = 4> {
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, products = 1.4, processors = 132>} {
  func.func @main(%x : tensor<64x48xf32>, %w : tensor<48x64xf32>) -> tensor<64x64xf32> {
    %y = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<64x48xf32>, tensor<48x64xf32>) -> tensor<64x64xf32>
    func.return %y : tensor<64x64xf32>
  }
}
