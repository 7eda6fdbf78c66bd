// RUN: not cuesta-opt %s -p "add-counters"

// CHECK: how many points meet, and how many groups of them, must be numbers
func.func @main(%x: tensor<?xf32, #aten.layout<sizes = [s0]>>) -> tensor<?xf32, #aten.layout<sizes = [s0]>> attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {
  %y = loops.nest (%i : s0) outs(%o: tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %a = loops.load %x[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    loops.store %a, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    loops.meet last 1
  }
  func.return %y : tensor<?xf32, #aten.layout<sizes = [s0]>>
}
