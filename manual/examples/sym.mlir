// sym.value: an integer that the program gives back; its type is the expression that it equals.
func.func @main(%x : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>) -> !sym.int<s0 * 2> attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %n = sym.value : !sym.int<s0 * 2>
  func.return %n : !sym.int<s0 * 2>
}
