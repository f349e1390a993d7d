_base_ = [
    '../_base_/datasets/uci_real_estate_dir.py',
    '../_base_/models/tabular_mlp.py',
    '../_base_/schedules/tabular_200e.py',
]

model = dict(backbone=dict(in_channels=6))
train_dataloader = dict(batch_size=64)
default_hooks = dict(checkpoint=dict(interval=10))
