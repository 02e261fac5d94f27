# SPDX-License-Identifier: Apache-2.0
# Refused: a Reshape keeps the scale, and this result has another one.

graph main(%x: i8[2,3] quant(scale: 0.5, zero_point: 3)) -> %z {
  %z = Pack(%x) {values_count: 1, axis: 0} : i8[1,2,3] quant(scale: 0.25, zero_point: 3)
}

rules {
  passes(substitute_pack_to_reshape)
  unchanged()
  refused("%z: has other quantization parameters than %x")
}
