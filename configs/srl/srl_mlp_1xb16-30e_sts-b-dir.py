_base_ = '../baseline/vanilla_mlp_1xb16-30e_sts-b-dir.py'

# The homogeneity loss divides by the gap between labels, which is 0.1 here.
model = dict(
    head=dict(
        type='mmgeom.SRLHead', num_bins=50, lambda_h=0.01, lambda_con=0.1
    )
)
