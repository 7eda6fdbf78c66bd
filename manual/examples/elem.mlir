// elem.constant, elem.convert: a constant, and a cast as torch's `.to(dtype)`: floats to integers truncate.
func.func @main(%x : tensor<8xf32>) -> tensor<8xi32> {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xi32>) {
    %a = loops.load %x[%i] : tensor<8xf32>
    %c = elem.constant 10.0 : f32
    %b = elem.mul %a, %c : f32
    %n = elem.convert %b : f32 to i32
    loops.store %n, %o[%i] : tensor<8xi32>
  }
  func.return %y : tensor<8xi32>
}
// -----
// elem.select: one of two values.
func.func @main(%x : tensor<8xf32>, %y : tensor<8xf32>) -> tensor<8xf32> {
  %z = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %a = loops.load %x[%i] : tensor<8xf32>
    %b = loops.load %y[%i] : tensor<8xf32>
    %c = elem.lt %a, %b : f32
    %d = elem.select %c, %a, %b : f32
    loops.store %d, %o[%i] : tensor<8xf32>
  }
  func.return %z : tensor<8xf32>
}
// -----
// elem.bitcast: the bits of a float as an integer.
func.func @main(%x : tensor<8xf32>) -> tensor<8xi32> {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xi32>) {
    %a = loops.load %x[%i] : tensor<8xf32>
    %n = elem.bitcast %a : f32 to i32
    loops.store %n, %o[%i] : tensor<8xi32>
  }
  func.return %y : tensor<8xi32>
}
// -----
// elem.philox: word 0 of the four that Philox4x32-10 gives for a key and a counter.
func.func @main(%k : tensor<8xi64>) -> tensor<8xi64> {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xi64>) {
    %key = loops.load %k[%i] : tensor<8xi64>
    %counter = loops.index [%i] : i64
    %w = elem.philox 0 of %key, %counter : i64
    loops.store %w, %o[%i] : tensor<8xi64>
  }
  func.return %y : tensor<8xi64>
}
// -----
// elem.random_word: the random word of a place; places 0 to 3 have the four words of one call.
func.func @main(%k : tensor<1xi64>) -> tensor<8xi64> {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xi64>) {
    %key = loops.load %k[0] : tensor<1xi64>
    %place = loops.index [%i] : i64
    %w = elem.random_word 1099511627776 of %key, %place : i64
    loops.store %w, %o[%i] : tensor<8xi64>
  }
  func.return %y : tensor<8xi64>
}
// -----
// elem.dot: a sum of two products of bf16, the parts of words of 32 bits.
func.func @main(%x : tensor<8xi32>, %w : tensor<8xi32>) -> tensor<8xf32> {
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %a = loops.load %x[%i] : tensor<8xi32>
    %b = loops.load %w[%i] : tensor<8xi32>
    %s = elem.dot bf16 of %a, %b : i32
    loops.store %s, %o[%i] : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}
