# Logit adjustment in the loss, which is balanced softmax at tau = 1.
_base_ = './ce_resnet50_4xb64-90e_inaturalist2018.py'

model = dict(
    head=dict(loss=dict(_delete_=True, type='mmgeom.LogitAdjustedLoss'))
)
