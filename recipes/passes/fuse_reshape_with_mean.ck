# SPDX-License-Identifier: Apache-2.0
# Done: a MEAN, SUM, or other reduction whose result loses exactly the reduced dimensions.

graph main(%x: f32[?,3,4]) -> %y {
  %a = Neg(%x)
  %b = Sum(%a, [2]) {keep_dims: true}
  %c = Reshape(%b, [-1, 3])
  %y = Neg(%c)
}

rules {
  passes(fuse_reshape_with_mean)
  order(Neg, Sum, Neg)
}
