# SPDX-License-Identifier: Apache-2.0
# An operation with a name of its own, and the graph that says what it means.

model tflite

graph main(%x: f32[2,3]) -> %y {
  %y = StablehloComposite(%x) {name: "my.double", decomposition: @double}
}

graph double(%x: f32[2,3]) -> %y {
  %y = Add(%x, %x)
}
