# Handwritten digits that ship with scikit-learn, made long-tailed: trains on
# a CPU in a minute.
_base_ = [
    '../_base_/datasets/digits_lt_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/digits_60e.py',
    '../_base_/default_runtime.py',
]

model = dict(
    backbone=dict(depth=20, in_channels=1),
    head=dict(loss=dict(_delete_=True, type='mmgeom.LogitAdjustedLoss')),
)
