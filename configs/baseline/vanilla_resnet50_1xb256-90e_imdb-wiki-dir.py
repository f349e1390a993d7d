_base_ = [
    '../_base_/datasets/imdb_wiki_dir.py',
    '../_base_/models/resnet50_regressor.py',
    '../_base_/schedules/age_90e.py',
]
