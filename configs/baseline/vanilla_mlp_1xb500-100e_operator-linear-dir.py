# Batches of 500 instead of the whole training set: minutes instead of hours.
_base_ = [
    '../_base_/datasets/operator_linear_dir.py',
    '../_base_/models/operator_mlp.py',
    '../_base_/schedules/operator_100e.py',
]

model = dict(backbone=dict(in_channels=101))
train_dataloader = dict(
    batch_size=500, sampler=dict(type='DefaultSampler', shuffle=True)
)
default_hooks = dict(checkpoint=dict(interval=10))
