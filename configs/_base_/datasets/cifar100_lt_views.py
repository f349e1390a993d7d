# CIFAR-100-LT with three training views of each image.
_base_ = ['./cifar100_lt.py', './views/cifar_views.py']

data_preprocessor = dict(type='mmgeom.MultiViewDataPreprocessor')

train_pipeline = [
    _base_.three_views,
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(dataset=dict(pipeline=train_pipeline)))
