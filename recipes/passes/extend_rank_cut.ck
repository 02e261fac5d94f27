# SPDX-License-Identifier: Apache-2.0
# Done: Exp gets a further axis; Add and Softmax, which read an input of rank 3, do not.

graph main(%x: f32[?,4,1,6], %r: f32[?,4,6]) -> %y {
  %a = Reshape(%x, [-1,4,6])
  %b = Exp(%a)
  %c = Reshape(%b, [-1,4,1,6])
  %d = Neg(%c)
  %e = Reshape(%d, [-1,4,6])
  %f = Add(%e, %r)
  %y = Softmax(%f)
}

rules {
  passes(extend_rank)
  order(Exp, Neg, Reshape, Add, Softmax)
}
