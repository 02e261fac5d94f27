# SPDX-License-Identifier: Apache-2.0
# A variable that is assigned and read in every run.

model tflite

graph main(%x: f32[2,3]) -> %y {
  %handle = VarHandle() {shared_name: "kept"}  : resource[1]
  %twice = Mul(%x, 2.0)
  AssignVariable(%handle, %twice)
  %y = ReadVariable(%handle)  : f32[2,3]
}
