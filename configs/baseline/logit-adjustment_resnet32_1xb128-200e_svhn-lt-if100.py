# Logit adjustment in the loss, which is balanced softmax at tau = 1.
_base_ = './ce_resnet32_1xb128-200e_svhn-lt-if100.py'

model = dict(
    head=dict(loss=dict(_delete_=True, type='mmgeom.LogitAdjustedLoss'))
)
