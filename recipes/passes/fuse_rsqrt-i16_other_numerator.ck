# SPDX-License-Identifier: Apache-2.0
# Refused: the int16 numerator is 0.5, not 1.

graph main(%x: i16[2,3] quant(scale: 0.0001)) -> %z {
  %k = const i16[1] quant(scale: 0.0001) [5000]
  %s = Sqrt(%x) : i16[2,3] quant(scale: 0.001)
  %z = Div(%k, %s) : i16[2,3] quant(scale: 0.01)
}

rules {
  passes(fuse_rsqrt)
  unchanged()
  refused("%k: expected 1, got 0.5")
}
