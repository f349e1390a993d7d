_base_ = [
    '../_base_/datasets/uci_abalone_dir.py',
    '../_base_/models/tabular_mlp.py',
    '../_base_/schedules/tabular_200e.py',
]

model = dict(backbone=dict(in_channels=10))
optim_wrapper = dict(optimizer=dict(lr=1e-3))
train_cfg = dict(max_epochs=60)
default_hooks = dict(checkpoint=dict(interval=10))
