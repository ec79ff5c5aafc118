"""Recipes: functions that make an entry's outputs from its downloads, by name."""

from harness.fetching.recipes.base import Got, Recipe, Take
from harness.fetching.recipes.captions import entities, karpathy, matched_coco, matched_table
from harness.fetching.recipes.data_sets import cifar, imagenet_list, place, senteval, stsb_multi, unpacked, wikipedia

RECIPES: dict[str, Recipe] = {
    "place": place,
    "unpack": unpacked,
    "cifar": cifar,
    "flickr30k-entities": entities,
    "imagenet-list": imagenet_list,
    "karpathy": karpathy,
    "matched-coco": matched_coco,
    "matched-table": matched_table,
    "senteval": senteval,
    "stsb-multi": stsb_multi,
    "wikipedia": wikipedia,
}

__all__ = ["RECIPES", "Got", "Recipe", "Take"]
