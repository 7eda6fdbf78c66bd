// RUN: cuesta-opt %s -p share-slices --split-input-file

// Nobody is like it; and what is alike begins where the other does.
// CHECK-NOT: loops.view
// CHECK:     func.return
func.func @main(%x : tensor<16xf32>, %y : tensor<16xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %x[%i + 8] : tensor<16xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %b = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %y[%i + 8] : tensor<16xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %c = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %y[%i] : tensor<16xf32>
    %v = elem.neg %u : f32
    loops.store %v, %o[%i] : tensor<8xf32>
  }
  func.return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----
// An odd address; a load behind a mask, whose index lies outside where nothing is read; sizes that are symbols.
// CHECK-NOT: loops.view
// CHECK:     func.return
func.func @main(%x : tensor<18xf32>, %n : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {sym.symbols = #sym.symbols<s0 in [16, 99]>} {
  %a = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %x[%i + 1] : tensor<18xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %b = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %x[%i + 3] : tensor<18xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %c = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %k = loops.index [%i] : i64
    %l = elem.constant 4 : i64
    %m = elem.lt %k, %l : i64
    %z = elem.constant 0.0 : f32
    %u = loops.load %x[%i + 12] if %m else %z : tensor<18xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %d = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %k = loops.index [%i] : i64
    %l = elem.constant 4 : i64
    %m = elem.lt %k, %l : i64
    %z = elem.constant 0.0 : f32
    %u = loops.load %x[%i + 8] if %m else %z : tensor<18xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %e = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %n[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %f = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %n[%i + 8] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  func.return %a, %b, %c, %d, %e, %f : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----
// Of the same tensor the same: neither begins further on.
// CHECK-NOT: loops.view %y
// CHECK:     func.return
func.func @main(%x : tensor<32xf32>, %y : tensor<32xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %x[%i] : tensor<32xf32>
    %v = loops.load %y[%i] : tensor<32xf32>
    %w = elem.add %u, %v : f32
    loops.store %w, %o[%i] : tensor<8xf32>
  }
  %b = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %u = loops.load %x[%i + 16] : tensor<32xf32>
    %v = loops.load %y[%i] : tensor<32xf32>
    %w = elem.add %u, %v : f32
    loops.store %w, %o[%i] : tensor<8xf32>
  }
  func.return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----
// No elements, rank 0, and an index that only the data knows, of which all of the tensor is read.
// CHECK-NOT: loops.view %x by (d0, d1) -> (d0 + 1
// CHECK:     loops.view %x by (d0, d1) -> (d0, d1 + 8) : tensor<4x16xf32> to tensor<4x8xf32, #aten.layout<strides = [16, 1]>>
// CHECK:     func.return
func.func @main(%x : tensor<4x16xf32>, %k : tensor<8xi64>, %e : tensor<0xf32>, %r : tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<0xf32>, tensor<f32>) {
  %a = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %s = loops.load %k[%i] : tensor<8xi64>
    %t = loops.bound %s, 4 : i64
    %u = loops.load %x[%t, %i] : tensor<4x16xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %b = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %s = loops.load %k[%i] : tensor<8xi64>
    %t = loops.bound %s, 4 : i64
    %u = loops.load %x[%t, %i + 8] : tensor<4x16xf32>
    loops.store %u, %o[%i] : tensor<8xf32>
  }
  %c = loops.nest (%i : 0) outs(%o : tensor<0xf32>) {
    %u = loops.load %e[%i] : tensor<0xf32>
    loops.store %u, %o[%i] : tensor<0xf32>
  }
  %d = loops.nest () outs(%o : tensor<f32>) {
    %u = loops.load %r[] : tensor<f32>
    loops.store %u, %o[] : tensor<f32>
  }
  func.return %a, %b, %c, %d : tensor<8xf32>, tensor<8xf32>, tensor<0xf32>, tensor<f32>
}
