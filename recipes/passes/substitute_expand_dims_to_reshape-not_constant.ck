# SPDX-License-Identifier: Apache-2.0
# Refused: %s: is not constant, expected const

graph main(%x: f32[1,3]) -> %z {
  %rank = Rank(%x)
  %s = Sub(%rank, 2)
  %z = ExpandDims(%x, %s)  : f32[1,1,3]
}

rules {
  passes(substitute_expand_dims_to_reshape)
  unchanged()
  refused("%s: is not constant")
}
