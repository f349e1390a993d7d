_base_ = '../baseline/vanilla_mlp_1xb64-60e_uci-abalone-dir.py'

model = dict(head=dict(type='mmgeom.SRLHead', num_bins=29, proj_dim=64))
