# SPDX-License-Identifier: Apache-2.0
# An operation with a name of its own, and the graph that says what it means; its attributes are an empty
# FlexBuffers map.

model tflite

graph main(%x: f32[2,3]) -> %y {
  %y = StablehloComposite(%x) {name: "my.double", decomposition: @double, composite_attributes: [0, 0, 1, 0, 0, 36, 1]}
}

graph double(%x: f32[2,3]) -> %y {
  %y = Add(%x, %x)
}
