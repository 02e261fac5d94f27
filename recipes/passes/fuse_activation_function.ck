# SPDX-License-Identifier: Apache-2.0
# Done: relu(op(x))  ==  op(x) with the activation fused, where the operator has that attribute.

graph main(%x: f32[1,4,4,2], %o: f32[1,4,4,2]) -> %z {
  %y = Add(%x, %o)
  %z = Relu(%y)
}

rules {
  passes(fuse_activation_function)
  order(Add)
}
