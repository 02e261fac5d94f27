# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has 2 users, some outside of the Reshapes

graph main(%x: i8[2,3] quant(scale: 0.5)) -> %y, %c {
  %b = Reshape(%x, [6]) : i8[6] quant(scale: 0.5)
  %c = Dequantize(%b) : f32[6]
  %d = Relu(%b) : i8[6] quant(scale: 0.5)
  %e = Reshape(%d, [2,3]) : i8[2,3] quant(scale: 0.25)
  %y = Dequantize(%e) : f32[2,3]
}

rules {
  passes(remove_reshape_around_unaryop)
  unchanged()
  refused("has 2 users, some outside of the Reshapes")
}
