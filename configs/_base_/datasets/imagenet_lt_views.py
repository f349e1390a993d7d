# ImageNet-LT with three training views of each image.
_base_ = ['./imagenet_lt.py', './views/large_image_views.py']

data_preprocessor = dict(type='mmgeom.MultiViewDataPreprocessor')

train_pipeline = [
    dict(type='mmgeom.LoadImage'),
    _base_.three_views,
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
