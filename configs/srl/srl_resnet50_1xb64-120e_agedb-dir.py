# SRL as the paper writes it.
_base_ = '../baseline/vanilla_resnet50_1xb64-120e_agedb-dir.py'

model = dict(head=dict(type='mmgeom.SRLHead', num_bins=102))
