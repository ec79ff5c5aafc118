"""Recipes: functions that make an entry's outputs from its downloads, by name."""

from harness.fetching.recipes.base import Got, Recipe, Take
from harness.fetching.recipes.cifar import cifar
from harness.fetching.recipes.entities import entities
from harness.fetching.recipes.karpathy import karpathy
from harness.fetching.recipes.matched import matched_coco, matched_table
from harness.fetching.recipes.plain import imagenet_list, place, unpacked
from harness.fetching.recipes.senteval import senteval, stsb_multi
from harness.fetching.recipes.wikipedia import wikipedia

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
