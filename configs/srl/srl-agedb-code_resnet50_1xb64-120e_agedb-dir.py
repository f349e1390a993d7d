# SRL with the losses, the weights and the surrogate of the released code.
_base_ = '../baseline/vanilla_resnet50_1xb64-120e_agedb-dir.py'

model = dict(
    head=dict(
        type='mmgeom.SRLHead',
        num_bins=102,
        preset='agedb_code',
        warmup_epochs=0,
    )
)
custom_hooks = [dict(type='mmgeom.SurrogateHook')]
