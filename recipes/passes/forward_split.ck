# SPDX-License-Identifier: Apache-2.0
# Done: the heads of queries, keys and values are separated by one Reshape and one Transpose.

graph main(%x: f32[2,5,24]) -> %z {
  %a, %b, %c = Split(2, %x) {num_splits: 3}
  %ha = Reshape(%a, [2, 5, 2, 4])
  %hb = Reshape(%b, [2, 5, 2, 4])
  %hc = Reshape(%c, [2, 5, 2, 4])
  %ta = Transpose(%ha, [0, 2, 1, 3])
  %tb = Transpose(%hb, [0, 2, 1, 3])
  %tc = Transpose(%hc, [0, 2, 1, 3])
  %ea = Exp(%ta)
  %eb = Exp(%tb)
  %ec = Exp(%tc)
  %s = Mul(%ea, %eb)
  %z = Add(%s, %ec)
}

rules {
  passes(forward_split)
  order(Reshape, Transpose, Exp, Split, Mul, Add)
}
