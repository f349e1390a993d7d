# From random weights, as the published results on ages.
model = dict(
    type='mmgeom.ImageRegressor',
    backbone=dict(type='ResNet', depth=50, out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmgeom.RegressorHead', in_channels=2048),
)
