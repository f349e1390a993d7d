_base_ = './ce_resnet20_1xb128-15e_fashion-mnist-lt-14px-if100.py'

model = dict(
    head=dict(loss=dict(_delete_=True, type='mmgeom.LogitAdjustedLoss'))
)
