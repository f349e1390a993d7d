_base_ = [
    '../_base_/datasets/sts_b_dir.py',
    '../_base_/models/tabular_mlp.py',
    '../_base_/schedules/text_pairs_30e.py',
]

model = dict(
    backbone=dict(in_channels=1536, hidden_channels=(256, 128)),
    head=dict(in_channels=128),
)
