_base_ = '../baseline/vanilla_resnet50_1xb256-90e_imdb-wiki-dir.py'

model = dict(head=dict(type='mmgeom.SRLHead', num_bins=187))
