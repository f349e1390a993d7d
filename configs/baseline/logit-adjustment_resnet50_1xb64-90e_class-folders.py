# Logit adjustment in the loss, which is balanced softmax at tau = 1.
_base_ = './ce_resnet50_1xb64-90e_class-folders.py'

model = dict(
    head=dict(loss=dict(_delete_=True, type='mmgeom.LogitAdjustedLoss'))
)
