# SPDX-License-Identifier: Apache-2.0
# Done: hard_swish(x)  ==  x * (relu6(x + 3) / 6); fuse_hardswish undoes it, so O1 leaves that out.

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = HardSwish(%x)
}

rules {
  passes(decompose_hardswish)
  order(Add, Relu6, Mul, Mul)
}
