# SPDX-License-Identifier: Apache-2.0
# Refused: %z: is quantized, this pass does not keep quantization parameters

graph main(%x: i8[2,3] quant(scale: 0.5, zero_point: 3)) -> %y {
  %c = const i8[1] quant(scale: 0.5, zero_point: 3) [0]
  %z = Add(%x, %c)              : i8[2,3] quant(scale: 0.5, zero_point: 3)
  %y = Reshape(%z, [3, 2])      : i8[3,2] quant(scale: 0.5, zero_point: 3)
}

rules {
  passes(remove_unnecessary_add)
  unchanged()
  refused("is quantized")
}
