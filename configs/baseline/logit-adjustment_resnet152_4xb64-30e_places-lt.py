# Logit adjustment in the loss, which is balanced softmax at tau = 1.
_base_ = './ce_resnet152_4xb64-30e_places-lt.py'

model = dict(
    head=dict(loss=dict(_delete_=True, type='mmgeom.LogitAdjustedLoss'))
)
