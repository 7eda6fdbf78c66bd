// RUN: cuesta-opt %s -p aten-to-loops --split-input-file
// ROUNDTRIP

// A draw of a key is a number at a point, and each row begins with a call of Philox of its own: of 10 columns 12 places.
// CHECK:      loops.nest (%[[I:[0-9]+]] : 3, %[[J:[0-9]+]] : 5, %[[K:[0-9]+]] : 10)
// CHECK-NEXT:   %[[KEY:.*]] = loops.load %key[0]
// CHECK-NEXT:   %[[PLACE:.*]] = loops.index [%[[I]] * 60 + %[[J]] * 12 + %[[K]]] : i64
// CHECK-NEXT:   %[[WORD:.*]] = elem.random_word 2199023255552 of %[[KEY]], %[[PLACE]] : i64
// CHECK-NEXT:   elem.constant 3865470567 : i64
// CHECK-NEXT:   elem.lt %[[WORD]]
func.func @main(%key : tensor<1xi64>) -> tensor<3x5x10xi1> {
  %m = aten.call "cuesta::bernoulli.default"(%key, [3, 5, 10], 0.9, 2) : (tensor<1xi64>) -> tensor<3x5x10xi1>
  func.return %m : tensor<3x5x10xi1>
}

// -----
// No axes, no elements, one column: of every row one place in four.
// CHECK: elem.random_word
// CHECK: loops.nest (%{{.*}} : 0, %{{.*}} : 7)
// CHECK: loops.index [%{{.*}} * 4 + %{{.*}}] : i64
func.func @main(%key : tensor<1xi64>) -> (tensor<i1>, tensor<0x7xi1>, tensor<6x1xi1>) {
  %a = aten.call "cuesta::bernoulli.default"(%key, [], 0.5, 1) : (tensor<1xi64>) -> tensor<i1>
  %b = aten.call "cuesta::bernoulli.default"(%key, [0, 7], 0.5, 2) : (tensor<1xi64>) -> tensor<0x7xi1>
  %c = aten.call "cuesta::bernoulli.default"(%key, [6, 1], 0.5, 3) : (tensor<1xi64>) -> tensor<6x1xi1>
  func.return %a, %b, %c : tensor<i1>, tensor<0x7xi1>, tensor<6x1xi1>
}

// -----
// Sizes that are known at run time.
// CHECK: loops.index [%{{.*}} * ((s0 + 3) floordiv 4) * 4 + %{{.*}}] : i64
func.func @main(%key : tensor<1xi64>, %x : tensor<5x?xi1, #aten.layout<sizes = [5, s0]>>) -> tensor<5x?xi1, #aten.layout<sizes = [5, s0]>> attributes {sym.symbols = #sym.symbols<s0 in [1, 50]>} {
  %m = aten.call "cuesta::bernoulli.default"(%key, [5, s0], 0.25, 1) : (tensor<1xi64>) -> tensor<5x?xi1, #aten.layout<sizes = [5, s0]>>
  func.return %m : tensor<5x?xi1, #aten.layout<sizes = [5, s0]>>
}

// -----
// A key is torch's.
// CHECK: loops.extern "aten.randint.low"(-9223372036854775808, 9223372036854775807, [1], dtype = torch.int64, device = torch.device("cpu"))
func.func @main() -> tensor<1xi64> {
  %key = aten.call "cuesta::random_key.default"(device = torch.device("cpu")) : () -> tensor<1xi64>
  func.return %key : tensor<1xi64>
}

// -----
// A probability that is none stays a call.
// CHECK: loops.extern "cuesta::bernoulli.default"(%key, [8], 1.5, 1)
func.func @main(%key : tensor<1xi64>) -> tensor<8xi1> {
  %a = aten.call "cuesta::bernoulli.default"(%key, [8], 1.5, 1) : (tensor<1xi64>) -> tensor<8xi1>
  func.return %a : tensor<8xi1>
}
