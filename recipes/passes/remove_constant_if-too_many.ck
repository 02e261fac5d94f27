# SPDX-License-Identifier: Apache-2.0
# Refused: g runs h 32 times, and is itself run 32 times; h would stand in 1024 places.

graph main(%x: f32[4]) -> %z {
  %y0 = If(true, %x) {then_graph: @g, else_graph: @no}
  %y1 = If(true, %y0) {then_graph: @g, else_graph: @no}
  %y2 = If(true, %y1) {then_graph: @g, else_graph: @no}
  %y3 = If(true, %y2) {then_graph: @g, else_graph: @no}
  %y4 = If(true, %y3) {then_graph: @g, else_graph: @no}
  %y5 = If(true, %y4) {then_graph: @g, else_graph: @no}
  %y6 = If(true, %y5) {then_graph: @g, else_graph: @no}
  %y7 = If(true, %y6) {then_graph: @g, else_graph: @no}
  %y8 = If(true, %y7) {then_graph: @g, else_graph: @no}
  %y9 = If(true, %y8) {then_graph: @g, else_graph: @no}
  %y10 = If(true, %y9) {then_graph: @g, else_graph: @no}
  %y11 = If(true, %y10) {then_graph: @g, else_graph: @no}
  %y12 = If(true, %y11) {then_graph: @g, else_graph: @no}
  %y13 = If(true, %y12) {then_graph: @g, else_graph: @no}
  %y14 = If(true, %y13) {then_graph: @g, else_graph: @no}
  %y15 = If(true, %y14) {then_graph: @g, else_graph: @no}
  %y16 = If(true, %y15) {then_graph: @g, else_graph: @no}
  %y17 = If(true, %y16) {then_graph: @g, else_graph: @no}
  %y18 = If(true, %y17) {then_graph: @g, else_graph: @no}
  %y19 = If(true, %y18) {then_graph: @g, else_graph: @no}
  %y20 = If(true, %y19) {then_graph: @g, else_graph: @no}
  %y21 = If(true, %y20) {then_graph: @g, else_graph: @no}
  %y22 = If(true, %y21) {then_graph: @g, else_graph: @no}
  %y23 = If(true, %y22) {then_graph: @g, else_graph: @no}
  %y24 = If(true, %y23) {then_graph: @g, else_graph: @no}
  %y25 = If(true, %y24) {then_graph: @g, else_graph: @no}
  %y26 = If(true, %y25) {then_graph: @g, else_graph: @no}
  %y27 = If(true, %y26) {then_graph: @g, else_graph: @no}
  %y28 = If(true, %y27) {then_graph: @g, else_graph: @no}
  %y29 = If(true, %y28) {then_graph: @g, else_graph: @no}
  %y30 = If(true, %y29) {then_graph: @g, else_graph: @no}
  %z = If(true, %y30) {then_graph: @g, else_graph: @no}
}

graph g(%x: f32[4]) -> %z {
  %y0 = If(true, %x) {then_graph: @h, else_graph: @no}
  %y1 = If(true, %y0) {then_graph: @h, else_graph: @no}
  %y2 = If(true, %y1) {then_graph: @h, else_graph: @no}
  %y3 = If(true, %y2) {then_graph: @h, else_graph: @no}
  %y4 = If(true, %y3) {then_graph: @h, else_graph: @no}
  %y5 = If(true, %y4) {then_graph: @h, else_graph: @no}
  %y6 = If(true, %y5) {then_graph: @h, else_graph: @no}
  %y7 = If(true, %y6) {then_graph: @h, else_graph: @no}
  %y8 = If(true, %y7) {then_graph: @h, else_graph: @no}
  %y9 = If(true, %y8) {then_graph: @h, else_graph: @no}
  %y10 = If(true, %y9) {then_graph: @h, else_graph: @no}
  %y11 = If(true, %y10) {then_graph: @h, else_graph: @no}
  %y12 = If(true, %y11) {then_graph: @h, else_graph: @no}
  %y13 = If(true, %y12) {then_graph: @h, else_graph: @no}
  %y14 = If(true, %y13) {then_graph: @h, else_graph: @no}
  %y15 = If(true, %y14) {then_graph: @h, else_graph: @no}
  %y16 = If(true, %y15) {then_graph: @h, else_graph: @no}
  %y17 = If(true, %y16) {then_graph: @h, else_graph: @no}
  %y18 = If(true, %y17) {then_graph: @h, else_graph: @no}
  %y19 = If(true, %y18) {then_graph: @h, else_graph: @no}
  %y20 = If(true, %y19) {then_graph: @h, else_graph: @no}
  %y21 = If(true, %y20) {then_graph: @h, else_graph: @no}
  %y22 = If(true, %y21) {then_graph: @h, else_graph: @no}
  %y23 = If(true, %y22) {then_graph: @h, else_graph: @no}
  %y24 = If(true, %y23) {then_graph: @h, else_graph: @no}
  %y25 = If(true, %y24) {then_graph: @h, else_graph: @no}
  %y26 = If(true, %y25) {then_graph: @h, else_graph: @no}
  %y27 = If(true, %y26) {then_graph: @h, else_graph: @no}
  %y28 = If(true, %y27) {then_graph: @h, else_graph: @no}
  %y29 = If(true, %y28) {then_graph: @h, else_graph: @no}
  %y30 = If(true, %y29) {then_graph: @h, else_graph: @no}
  %z = If(true, %y30) {then_graph: @h, else_graph: @no}
}

graph h(%x: f32[4]) -> %z {
  %z = Neg(%x)
}

graph no(%x: f32[4]) -> %z {
  %z = Relu(%x)
}

rules {
  passes(remove_constant_if)
  ops(If: 64, Neg: 1)
  refused("h comes to 1 operators, and is wanted in 1024 places; 1000 operators in all may be made of it")
}
