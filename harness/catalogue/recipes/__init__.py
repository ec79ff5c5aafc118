"""Recipes: functions that make an entry's outputs from its downloads, by name."""

from harness.catalogue.recipes.base import Got, Recipe, Take
from harness.catalogue.recipes.cifar import cifar
from harness.catalogue.recipes.entities import entities
from harness.catalogue.recipes.karpathy import karpathy
from harness.catalogue.recipes.matched import matched_coco, matched_table
from harness.catalogue.recipes.plain import imagenet_list, place, unpacked
from harness.catalogue.recipes.senteval import senteval, stsb_multi
from harness.catalogue.recipes.wikipedia import wikipedia

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
