# SRL: the label draws an even curve over the sphere of the features.
_base_ = './vanilla_mlp_1xb16-60e_diabetes-dir.py'

# The homogeneity loss divides by the gap between labels, which is 10 here.
model = dict(
    head=dict(
        type='mmgeom.SRLHead',
        num_bins=33,
        lambda_h=1.0,
        lambda_con=0.1,
        proj_dim=0,
    )
)
