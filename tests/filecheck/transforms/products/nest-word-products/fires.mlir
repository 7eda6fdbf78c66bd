// RUN: cuesta-opt %s -p nest-word-products --split-input-file

// A layer: pairs lie side by side in both factors. Its weight, which a view transposes, is copied into strips of 32
// columns; what follows is done with it, before it is rounded.
// CHECK:      [[B:%.+]] = loops.words %t along 0 : tensor<64x64xbf16, #aten.layout<strides = [1, 64]>> to tensor<32x64xi32, #aten.layout<strides = [1, 32]>>
// CHECK-NEXT: [[P:%.+]] = loops.nest ([[Q:%.+]] : 2, [[K:%.+]] : 32, [[C:%.+]] : 32) outs([[O:%.+]]: tensor<2x32x32xi32>) {
// CHECK-NEXT:   [[W:%.+]] = loops.load [[B]][[[K]], [[Q]] * 32 + [[C]]]
// CHECK-NEXT:   loops.store [[W]], [[O]][[[Q]], [[K]], [[C]]] : tensor<2x32x32xi32>
// CHECK-NEXT: }
// CHECK-NEXT: [[A:%.+]] = loops.words %x along 1 : tensor<48x64xbf16> to tensor<48x32xi32>
// CHECK-NEXT: %y = loops.nest ([[I:%.+]] : 48, [[Q:%.+]] : 2, [[C:%.+]] : 32) outs([[O:%.+]]: tensor<48x64xbf16>) schedule #loops.schedule<lanes = 32, rows = 8> {
// CHECK-NEXT:   [[S:%.+]] = loops.reduce sum ([[K:%.+]] : 32) {
// CHECK-NEXT:     [[L:%.+]] = loops.load [[A]][[[I]], [[K]]] : tensor<48x32xi32>
// CHECK-NEXT:     [[R:%.+]] = loops.load [[P]][[[Q]], [[K]], [[C]]] : tensor<2x32x32xi32>
// CHECK-NEXT:     [[M:%.+]] = elem.dot bf16 of [[R]], [[L]] : i32
// CHECK-NEXT:     loops.yield [[M]] : f32
// CHECK-NEXT:   } : f32
// CHECK-NEXT:   [[D:%.+]] = loops.load %b[[[Q]] * 32 + [[C]]] : tensor<64xbf16>
// CHECK-NEXT:   [[E:%.+]] = elem.convert [[D]] : bf16 to f32
// CHECK-NEXT:   [[T:%.+]] = elem.add [[S]], [[E]] : f32
// CHECK-NEXT:   [[Z:%.+]] = elem.constant 0.0 : f32
// CHECK-NEXT:   [[U:%.+]] = elem.maximum [[T]], [[Z]] : f32
// CHECK-NEXT:   [[V:%.+]] = elem.convert [[U]] : f32 to bf16
// CHECK-NEXT:   loops.store [[V]], [[O]][[[I]], [[Q]] * 32 + [[C]]] : tensor<48x64xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %y
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products_bf16 = 1.1, processors = 132>} {
  func.func @main(%x : tensor<48x64xbf16>, %w : tensor<64x64xbf16>, %b : tensor<64xbf16>) -> tensor<48x64xbf16> {
    %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<64x64xbf16> to tensor<64x64xbf16, #aten.layout<strides = [1, 64]>>
    %m = loops.extern pure "aten.addmm.default"(%b, %x, %t) : (tensor<64xbf16>, tensor<48x64xbf16>, tensor<64x64xbf16, #aten.layout<strides = [1, 64]>>) -> tensor<48x64xbf16>
    %y = loops.nest (%i : 48, %j : 64) outs(%o : tensor<48x64xbf16>) {
      %a = loops.load %m[%i, %j] : tensor<48x64xbf16>
      %c = elem.convert %a : bf16 to f32
      %z = elem.constant 0.0 : f32
      %d = elem.maximum %c, %z : f32
      %e = elem.convert %d : f32 to bf16
      loops.store %e, %o[%i, %j] : tensor<48x64xbf16>
    }
    func.return %y : tensor<48x64xbf16>
  }
}

// -----

// Columns lie side by side: pairs are put together in the copy, of both factors. Of 48 columns, 16 are a strip. Another
// product with the same factor has the same strips.
// CHECK:      [[P:%.+]] = loops.nest ([[Q:%.+]] : 3, [[K:%.+]] : 16, [[C:%.+]] : 16) outs([[O:%.+]]: tensor<3x16x16xi32>) {
// CHECK-NEXT:   [[L:%.+]] = loops.load %w[[[K]] * 2, [[Q]] * 16 + [[C]]] : tensor<32x48xbf16>
// CHECK-NEXT:   [[L1:%.+]] = elem.bitcast [[L]] : bf16 to ui16
// CHECK-NEXT:   [[L2:%.+]] = elem.convert [[L1]] : ui16 to i32
// CHECK-NEXT:   [[H:%.+]] = loops.load %w[[[K]] * 2 + 1, [[Q]] * 16 + [[C]]] : tensor<32x48xbf16>
// CHECK-NEXT:   [[H1:%.+]] = elem.bitcast [[H]] : bf16 to ui16
// CHECK-NEXT:   [[H2:%.+]] = elem.convert [[H1]] : ui16 to i32
// CHECK-NEXT:   [[N:%.+]] = elem.constant 16 : i32
// CHECK-NEXT:   [[H3:%.+]] = elem.shl [[H2]], [[N]] : i32
// CHECK-NEXT:   [[W:%.+]] = elem.or [[L2]], [[H3]] : i32
// CHECK-NEXT:   loops.store [[W]], [[O]][[[Q]], [[K]], [[C]]] : tensor<3x16x16xi32>
// CHECK:      [[A:%.+]] = loops.nest ([[K:%.+]] : 16, [[I:%.+]] : 24)
// CHECK:      %y = loops.nest ([[I:%.+]] : 24, [[Q:%.+]] : 3, [[C:%.+]] : 16) outs({{.*}}) schedule #loops.schedule<lanes = 16, rows = 8>
// CHECK:        loops.load [[A]][[[K:%.+]], [[I]]] : tensor<16x24xi32>
// CHECK-NOT:  loops.nest ([[Q:%.+]] : 3, [[K:%.+]] : 16, [[C:%.+]] : 16)
// CHECK:      %z = loops.nest
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products_bf16 = 1.1, processors = 132>} {
  func.func @main(%x : tensor<32x24xbf16>, %u : tensor<40x32xbf16>, %w : tensor<32x48xbf16>) -> (tensor<24x48xbf16>, tensor<40x48xbf16>) {
    %a = loops.view %x by (d0, d1) -> (d1, d0) : tensor<32x24xbf16> to tensor<24x32xbf16, #aten.layout<strides = [1, 24]>>
    %y = loops.extern pure "aten.mm.default"(%a, %w) : (tensor<24x32xbf16, #aten.layout<strides = [1, 24]>>, tensor<32x48xbf16>) -> tensor<24x48xbf16>
    %z = loops.extern pure "aten.mm.default"(%u, %w) : (tensor<40x32xbf16>, tensor<32x48xbf16>) -> tensor<40x48xbf16>
    func.return %y, %z : tensor<24x48xbf16>, tensor<40x48xbf16>
  }
}

// -----

// Bytes: the copy is 128 more than the factor of columns, and 128 times the sum of a row is taken away.
// CHECK:        [[N:%.+]] = elem.constant -2139062144 : i32
// CHECK-NEXT:   elem.xor {{.*}}, [[N]] : i32
// CHECK:      [[A:%.+]] = loops.words %x along 1 : tensor<8x32xi8> to tensor<8x8xi32>
// CHECK-NEXT: [[R:%.+]] = loops.nest ([[I:%.+]] : 8) outs({{.*}}) {
// CHECK-NEXT:   loops.reduce sum ([[K:%.+]] : 8) {
// CHECK-NEXT:     [[W:%.+]] = loops.load [[A]][[[I]], [[K]]]
// CHECK-NEXT:     [[N:%.+]] = elem.constant -2139062144 : i32
// CHECK-NEXT:     elem.dot i8 of [[N]], [[W]] : i32
// CHECK:      %y = loops.nest
// CHECK:        [[S:%.+]] = loops.reduce sum
// CHECK:        [[L:%.+]] = loops.load [[R]][{{.*}}] : tensor<8xi32>
// CHECK-NEXT:   elem.sub [[S]], [[L]] : i32
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, products_i8 = 1.1, processors = 132>} {
  func.func @main(%x : tensor<8x32xi8>, %w : tensor<32x16xi8>) -> tensor<8x16xi32> {
    %y = loops.extern pure "aten._int_mm.default"(%x, %w) : (tensor<8x32xi8>, tensor<32x16xi8>) -> tensor<8x16xi32>
    func.return %y : tensor<8x16xi32>
  }
}
