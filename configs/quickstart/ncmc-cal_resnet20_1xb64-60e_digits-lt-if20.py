# NCMC: a fixed classifier with more centres for rarer classes, on the digits
# of the quickstart.
_base_ = './logit-adjustment_resnet20_1xb64-60e_digits-lt-if20.py'

model = dict(
    head=dict(
        _delete_=True,
        type='mmgeom.MultiCenterHead',
        num_classes=10,
        in_channels=64,
        f=20,
        theta=0.2,
    )
)
