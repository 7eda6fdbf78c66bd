// RUN: cuesta-opt %s --machine "processors=4" -p "choose-parts{target=cuda}" --split-input-file

// About 8 programs for each of 4 processors.
// CHECK:      outs(%o: tensor<f32>) schedule #loops.schedule<part = 2048> {
func.func @main(%x : tensor<65536xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 65536) {
      %a = loops.load %x[%j] : tensor<65536xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// Near miss: enough rows for all processors.
// CHECK-NOT:  schedule
func.func @main(%x : tensor<64x65536xf32>) -> tensor<64xf32> {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce sum (%j : 65536) {
      %a = loops.load %x[%i, %j] : tensor<64x65536xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----

// Columns whose rows do not begin where vectors may: parts pay earlier.
// CHECK:      func.func @main(%x: tensor<8192x255xf32>)
// CHECK-NEXT:   schedule #loops.schedule<part = 512>
func.func @main(%x : tensor<8192x255xf32>) -> tensor<255xf32> {
  %y = loops.nest (%i : 255) outs(%o : tensor<255xf32>) {
    %s = loops.reduce sum (%j : 8192) {
      %a = loops.load %x[%j, %i] : tensor<8192x255xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<255xf32>
  }
  func.return %y : tensor<255xf32>
}

// -----
// Near miss: they do.
// CHECK:      func.func @main(%x: tensor<8192x256xf32>)
// CHECK-NEXT:   outs(%o: tensor<256xf32>) {
func.func @main(%x : tensor<8192x256xf32>) -> tensor<256xf32> {
  %y = loops.nest (%i : 256) outs(%o : tensor<256xf32>) {
    %s = loops.reduce sum (%j : 8192) {
      %a = loops.load %x[%j, %i] : tensor<8192x256xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<256xf32>
  }
  func.return %y : tensor<256xf32>
}

// -----
// Columns so few that processors are left without a program.
// CHECK:      func.func @main(%x: tensor<65536x16xf32>)
// CHECK-NEXT:   schedule #loops.schedule<part = 2048>
func.func @main(%x : tensor<65536x16xf32>) -> tensor<16xf32> {
  %y = loops.nest (%i : 16) outs(%o : tensor<16xf32>) {
    %s = loops.reduce sum (%j : 65536) {
      %a = loops.load %x[%j, %i] : tensor<65536x16xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<16xf32>
  }
  func.return %y : tensor<16xf32>
}

// -----

// Columns that two stages read and no tile holds: parts read them once.
// CHECK:      func.func @main(%x: tensor<6000x2048xf32>)
// CHECK-NEXT:   schedule #loops.schedule<part = 256>
func.func @main(%x : tensor<6000x2048xf32>) -> tensor<2048xf32> {
  %y = loops.nest (%i : 2048) outs(%o : tensor<2048xf32>) {
    %c = elem.constant 6000.0 : f32
    %s = loops.reduce sum (%j : 6000) {
      %a = loops.load %x[%j, %i] : tensor<6000x2048xf32>
      loops.yield %a : f32
    } : f32
    %m = elem.div %s, %c : f32
    %v = loops.reduce sum (%j : 6000) {
      %a = loops.load %x[%j, %i] : tensor<6000x2048xf32>
      %d = elem.sub %a, %m : f32
      %q = elem.mul %d, %d : f32
      loops.yield %q : f32
    } : f32
    loops.store %v, %o[%i] : tensor<2048xf32>
  }
  func.return %y : tensor<2048xf32>
}

// -----
// Near miss: a tile holds them.
// CHECK:      func.func @main(%x: tensor<3000x2048xf32>)
// CHECK-NEXT:   outs(%o: tensor<2048xf32>) {
func.func @main(%x : tensor<3000x2048xf32>) -> tensor<2048xf32> {
  %y = loops.nest (%i : 2048) outs(%o : tensor<2048xf32>) {
    %c = elem.constant 3000.0 : f32
    %s = loops.reduce sum (%j : 3000) {
      %a = loops.load %x[%j, %i] : tensor<3000x2048xf32>
      loops.yield %a : f32
    } : f32
    %m = elem.div %s, %c : f32
    %v = loops.reduce sum (%j : 3000) {
      %a = loops.load %x[%j, %i] : tensor<3000x2048xf32>
      %d = elem.sub %a, %m : f32
      %q = elem.mul %d, %d : f32
      loops.yield %q : f32
    } : f32
    loops.store %v, %o[%i] : tensor<2048xf32>
  }
  func.return %y : tensor<2048xf32>
}
