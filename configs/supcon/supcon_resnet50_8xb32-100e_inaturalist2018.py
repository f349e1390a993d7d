# Supervised contrast beside logit-adjusted cross-entropy.
# For 8 GPUs: the features of all of them are contrasted with each other.
_base_ = [
    '../_base_/datasets/inaturalist2018_views.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/inaturalist_100e.py',
    '../_base_/default_runtime.py',
]

train_dataloader = dict(batch_size=32)

model = dict(
    type='mmgeom.MultiViewClassifier',
    head=dict(
        _delete_=True,
        type='mmgeom.SupConHead',
        num_classes=8142,
        in_channels=2048,
        hidden_channels=2048,
        out_channels=1024,
        lambda_x=1.0,
        lambda_c=0.35,
        temperature=0.07,
    ),
)
