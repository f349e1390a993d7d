# FeatRecon: synthetic features where classes may lie, class temperatures.
# For 8 GPUs: the features of all of them are contrasted with each other.
_base_ = [
    '../_base_/datasets/imagenet_lt_views.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/imagenet_90e.py',
    '../_base_/default_runtime.py',
]

train_dataloader = dict(batch_size=32)

model = dict(
    type='mmgeom.MultiViewClassifier',
    head=dict(
        _delete_=True,
        type='mmgeom.FeatReconHead',
        num_classes=1000,
        in_channels=2048,
        hidden_channels=2048,
        out_channels=1024,
        lambda_x=1.0,
        lambda_c=0.35,
        # one descent of the temperature over the whole training
        tau_T=None,
    ),
)
