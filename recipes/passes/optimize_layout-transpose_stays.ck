# SPDX-License-Identifier: Apache-2.0
# Refused: the Softmax needs %t anyway, so an exchange of %t and %r2 saves no Transpose

graph main(%x: f32[2,6,4,6]) -> %y, %z {
  %t = Transpose(%x, [0,3,1,2])
  %r = Reshape(%t, [2,6,2,12])
  %s = Softmax(%r)
  %y = Mean(%s, [2]) {keep_dims: true}
  %r2 = Reshape(%t, [2,6,2,12])
  %z = Mean(%r2, [2,3]) {keep_dims: true}
}

rules {
  passes(optimize_layout)
  unchanged()
}
