_base_ = [
    '../_base_/datasets/uci_airfoil_dir.py',
    '../_base_/models/tabular_mlp.py',
    '../_base_/schedules/tabular_200e.py',
]

model = dict(backbone=dict(in_channels=5))
train_dataloader = dict(batch_size=64)
default_hooks = dict(checkpoint=dict(interval=10))
