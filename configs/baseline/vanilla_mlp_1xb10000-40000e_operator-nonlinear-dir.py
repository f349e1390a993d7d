_base_ = [
    '../_base_/datasets/operator_nonlinear_dir.py',
    '../_base_/models/operator_mlp.py',
    '../_base_/schedules/operator_40000e.py',
]

model = dict(backbone=dict(in_channels=241))
default_hooks = dict(checkpoint=dict(interval=500))
