# SPDX-License-Identifier: Apache-2.0
# Done: x - c  ==  x + (-c).

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = Sub(%x, [1.0, -2.0]) {act: RELU6}
}

rules {
  passes(replace_sub_with_add)
  order(Add)
}
