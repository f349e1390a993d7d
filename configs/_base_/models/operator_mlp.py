# A multilayer perceptron with two hidden layers and small initial weights.
# `in_channels` of the backbone is the number of sensors plus one.
model = dict(
    type='mmgeom.ImageRegressor',
    backbone=dict(
        type='mmgeom.MLP', hidden_channels=(100, 100), weight_std=0.001
    ),
    head=dict(
        type='mmgeom.RegressorHead',
        in_channels=100,
        init_cfg=dict(type='Normal', layer='Linear', std=0.001),
    ),
)
