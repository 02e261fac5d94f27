# SPDX-License-Identifier: Apache-2.0
# Refused: a Reshape keeps the scale, and this result has another one.

graph main(%x: i8[1,3] quant(scale: 0.5, zero_point: 3)) -> %z {
  %z = Squeeze(%x) {squeeze_dims: [0]} : i8[3] quant(scale: 0.25, zero_point: 3)
}

rules {
  passes(substitute_squeeze_to_reshape)
  unchanged()
  refused("%z: has other quantization parameters than %x")
}
