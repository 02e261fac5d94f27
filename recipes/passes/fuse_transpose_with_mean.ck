# SPDX-License-Identifier: Apache-2.0
# Done: mean(transpose(x), axes)  ==  mean(x, the same axes before the Transpose).

graph main(%x: f32[2,3,4,5]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, -1, 1, 2])
  %c = Sum(%b, [1])
  %y = Neg(%c)
}

rules {
  passes(fuse_transpose_with_mean)
  order(Neg, Sum, Neg)
}
