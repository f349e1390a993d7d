# A multilayer perceptron for rows of numbers. `in_channels` of the backbone is
# the number of columns.
model = dict(
    type='mmgeom.ImageRegressor',
    backbone=dict(type='mmgeom.MLP', hidden_channels=(20, 30, 10)),
    head=dict(type='mmgeom.RegressorHead', in_channels=10),
)
