"""Which images and documents of a transcript are sent as such, and the text that stands for those that are not.

Owns: that choice, and their bytes in base64. Must not know: how a dialect writes an image. A document is an attachment
of the type `application/pdf`: the store and the journal keep it as they keep an image.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from noria.core.content import Image, Part
from noria.models import words
from noria.models.encode import Images

USUAL = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""What the APIs of OpenAI and Anthropic take, by their references."""


PDF = "application/pdf"


class Pictures:
    """The images that can be sent: `taken` says whether this model takes any, `types` which (None: all). `documents`:
    whether it takes PDF, where `types` do not say so. `most`: bytes that an image may have, `widest`: pixels on a side;
    0 is no limit."""

    def __init__(
        self,
        images: Images | None,
        *,
        taken: bool = True,
        types: frozenset[str] | None = None,
        documents: bool = False,
        most: int = 0,
        widest: int = 0,
    ) -> None:
        self._most, self._widest = most, widest
        self._documents = documents or (types is not None and PDF in types)
        self._images = images
        self._taken = taken
        self._types = types

    def instead(self, image: Image) -> str:
        """The text that stands for an image that is not sent; empty where it is."""
        if image.withheld:
            return words.image_note(image)
        if image.media_type == PDF:
            if not self._documents:
                return words.image_note(image, words.NO_DOCUMENTS)
        elif not self._taken:
            return words.image_note(image, words.NO_IMAGES)
        elif self._types is not None and image.media_type not in self._types:
            return words.image_note(image, words.ODD_IMAGE.format(types=_listed(self._types)))
        elif self._most and image.size > self._most:
            return words.image_note(image, words.LARGE_IMAGE.format(most=self._most))
        data = self._bytes(image)
        if data is None:
            return words.image_note(image, words.GONE)
        if self._widest and image.media_type != PDF:
            from noria.core.images import image_size  # few transcripts have images

            if max(image_size(data)) > self._widest:
                return words.image_note(image, words.WIDE_IMAGE.format(widest=self._widest))
        return ""

    def shown(self, content: Sequence[Part]) -> list[Image]:
        """The images that are sent as images."""
        return [p for p in content if isinstance(p, Image) and not self.instead(p)]

    def notes(self, content: Sequence[Part], where: str = "") -> str:
        """A line for each image that is not sent; with `where`, which says where they are shown, for the others too."""
        images = [p for p in content if isinstance(p, Image)]
        lines = (self.instead(i) or (words.image_note(i, where) if where else "") for i in images)
        return "\n".join(line for line in lines if line)

    def base64(self, image: Image) -> str:
        """The bytes of an image that is sent."""
        return b64encode(self._bytes(image) or b"").decode("ascii")

    def _bytes(self, image: Image) -> bytes | None:
        try:
            return self._images.get(image.digest) if self._images else None
        except KeyError:
            return None


def _listed(types: frozenset[str]) -> str:
    """The types as a person says them: `jpeg, png and webp`."""
    *names, last = sorted(t.rpartition("/")[2] for t in types)
    return f"{', '.join(names)} and {last}" if names else last
