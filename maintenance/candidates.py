"""Pairs of live memories of one project, layer and kind that may say the same, by their vectors: an exact product in blocks
of what is to be looked at with all there is. What is held in memory has a limit whatever the number of memories: vectors
pass by once, and only those that are to be looked at stay."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from db import candidates
from db.candidates import BLOCK, Block, Group
from db.connect import Database

SLAB_BYTES = 400 * 1024 * 1024
"""Vectors held at a time; what does not fit is looked at in another pass over all of them."""
MOST_PAIRS = 200_000
"""Pairs of one pass, the nearest ones; more than that is one text a thousand times, which merging makes fewer."""
GATHERED_BYTES = 100 * 1024 * 1024
"""Vectors that wait for others of their group at most."""
_STEP = 4096
"""Vectors of a slab that are multiplied at a time."""
_WORTH = 512
"""Vectors of a group that are worth a product; the matrix library is slow with few."""

Float32 = NDArray[np.float32]


class Pair(NamedTuple):
    """Two memories that may say the same, the smaller id first."""

    first: uuid.UUID
    second: uuid.UUID
    cosine: float
    """Of their vectors; where there are none, the share of words in common."""


@dataclasses.dataclass
class Found:
    """What one pass found."""

    looked_at: dict[uuid.UUID, dt.datetime]
    """Memories that were compared with all live ones of their group, with `changed_at` as it was."""
    pairs: list[Pair]
    """Nearest first."""
    cut: bool = False
    """There were more than `MOST_PAIRS`; the nearest are here."""


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What of an embedder the search needs."""

    model: str
    dimensions: int
    threshold: float
    """Cosine from which two memories may say the same."""


def by_vectors(
    db: Database,
    groups: Sequence[Group],
    mark: str,
    having: Vectors,
    stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Found]:
    """The near pairs of some groups with at least one memory that is to be looked at, one pass after the other. What has no
    vector of the model takes no part. Ends early, without the pass it is in, when `stopping` says so."""
    done: set[bytes] = set()
    while True:
        look = _Pass(len(groups), having, done)
        for unlooked in (True, False):
            for block in candidates.vectors(
                db, groups, mark, having.model, having.dimensions, unlooked=unlooked
            ):
                if stopping():
                    return
                look.take(block, unlooked=unlooked)
            look.compare_rest(unlooked=unlooked)
        yield look.found()
        if not look.overflowed:
            return
        done |= look.looked_at


class _Pass:
    """Compares what is to be looked at, as far as it fits, with itself and with everything else, as the blocks come. A
    group's vectors gather until a product of them is worth it."""

    def __init__(self, groups: int, having: Vectors, done: set[bytes]) -> None:
        self._room = max(SLAB_BYTES // (4 * having.dimensions), 1)
        self._most_gathered = max(GATHERED_BYTES // (4 * having.dimensions), BLOCK)
        self._slabs = [_Slab(having.dimensions) for _ in range(groups)]
        self._gathered: dict[int, _Gathered] = {}
        self._waiting = 0
        self._pairs, self._done = _Pairs(having.threshold), done
        self._ids: list[NDArray[np.void]] = []
        self._changed: list[NDArray[np.int64]] = []
        self._taken = 0
        self._looked: list[NDArray[np.int64]] = []
        self._product = np.empty(_STEP * (BLOCK + _WORTH), np.float32)
        self.overflowed = False

    def take(self, block: Block, *, unlooked: bool) -> None:
        """Take a block."""
        if unlooked and self._done:
            block = _without(block, self._done)
        if not len(block.ids):
            return
        order = np.argsort(block.groups, kind="stable")
        vectors, numbers = block.vectors[order], self._taken + order
        found, starts = np.unique(block.groups[order], return_index=True)
        self._ids.append(block.ids)
        self._changed.append(block.changed)
        self._taken += len(order)
        for group, start, end in zip(found.tolist(), starts, [*starts[1:], len(order)], strict=True):
            gathered = self._gathered.setdefault(group, _Gathered())
            gathered.add(vectors[start:end].copy(), numbers[start:end])
            if gathered.number >= _WORTH:
                self._compare(group, unlooked)
        self._waiting += len(order)
        if self._waiting > self._most_gathered:
            self.compare_rest(unlooked=unlooked)

    def compare_rest(self, *, unlooked: bool) -> None:
        """Compare whatever has gathered."""
        for group in list(self._gathered):
            self._compare(group, unlooked)
        self._waiting = 0

    def _compare(self, group: int, unlooked: bool) -> None:
        vectors, numbers = self._gathered.pop(group).all()
        slab = self._slabs[group]
        for known, known_numbers in slab.parts():
            product = self._product[: len(known) * len(vectors)].reshape(len(known), len(vectors))
            np.matmul(known, vectors.T, out=product)
            self._pairs.add(product, known_numbers, numbers)
        if not unlooked:
            return
        fits = min(len(vectors), self._room)
        self._room -= fits
        self.overflowed |= fits < len(vectors)
        if fits:
            # Among themselves, and with those that came along and did not fit: each pair once.
            self._pairs.add(vectors[:fits] @ vectors.T, numbers[:fits], numbers, once=True)
            slab.add(vectors[:fits], numbers[:fits])
            self._looked.append(numbers[:fits])

    @property
    def looked_at(self) -> set[bytes]:
        """The ids of what was looked at."""
        ids = _joined(self._ids, "V16")
        return {ids[i].tobytes() for i in _joined(self._looked, np.int64)}

    def found(self) -> Found:
        """What there is to say after the last block."""
        ids, changed = _joined(self._ids, "V16"), _joined(self._changed, np.int64)
        names = {i: uuid.UUID(bytes=ids[i].tobytes()) for i in _joined(self._looked, np.int64).tolist()}
        looked_at = {name: candidates.moment(int(changed[i])) for i, name in names.items()}
        pairs = []
        for first, second, cosine in self._pairs.all():
            one, two = (names.get(i) or uuid.UUID(bytes=ids[i].tobytes()) for i in (first, second))
            if one != two:  # the same memory was read twice: it changed between the two statements
                pairs.append(Pair(min(one, two), max(one, two), cosine))
        return Found(looked_at, in_order(pairs), self._pairs.cut)


class _Gathered:
    """Vectors of one group that wait for more."""

    def __init__(self) -> None:
        self._vectors: list[Float32] = []
        self._numbers: list[NDArray[np.int64]] = []
        self.number = 0

    def add(self, vectors: Float32, numbers: NDArray[np.int64]) -> None:
        """Wait for more."""
        self._vectors.append(vectors)
        self._numbers.append(numbers)
        self.number += len(vectors)

    def all(self) -> tuple[Float32, NDArray[np.int64]]:
        """What there is."""
        return np.concatenate(self._vectors), np.concatenate(self._numbers)


class _Slab:
    """Vectors of one group that are held, in parts of `_STEP` that are filled one after the other."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._vectors: list[Float32] = []
        self._numbers: list[NDArray[np.int64]] = []
        self.used = 0

    def add(self, vectors: Float32, numbers: NDArray[np.int64]) -> None:
        """Hold more."""
        while len(vectors):
            at = self.used % _STEP
            if at == 0:
                self._vectors.append(np.empty((_STEP, self._dimensions), np.float32))
                self._numbers.append(np.empty(_STEP, np.int64))
            some = min(_STEP - at, len(vectors))
            self._vectors[-1][at : at + some] = vectors[:some]
            self._numbers[-1][at : at + some] = numbers[:some]
            self.used += some
            vectors, numbers = vectors[some:], numbers[some:]

    def parts(self) -> Iterator[tuple[Float32, NDArray[np.int64]]]:
        """What is held."""
        for place, (vectors, numbers) in enumerate(zip(self._vectors, self._numbers, strict=True)):
            filled = min(self.used - place * _STEP, _STEP)
            yield vectors[:filled], numbers[:filled]


class _Pairs:
    """The nearest pairs, `MOST_PAIRS` of them at last and twice as many meanwhile."""

    def __init__(self, threshold: float) -> None:
        self._floor = np.float32(threshold)
        self._kept: list[NDArray[Any]] = []
        self._number = 0
        self.cut = False

    def add(
        self, product: Float32, rows: NDArray[np.int64], columns: NDArray[np.int64], *, once: bool = False
    ) -> None:
        """The pairs of a product that are near enough; a cosine that is no number is not. `once`: rows are columns too, and
        only what lies above the diagonal counts."""
        places = np.flatnonzero(product >= self._floor)
        if once:
            places = places[places // product.shape[1] < places % product.shape[1]]
        if not len(places):
            return
        found = np.empty(len(places), [("first", np.int64), ("second", np.int64), ("cosine", np.float32)])
        row, column = np.divmod(places, product.shape[1])
        found["first"], found["second"] = rows[row], columns[column]
        found["cosine"] = product.ravel()[places]
        self._kept.append(found)
        self._number += len(found)
        if self._number > 2 * MOST_PAIRS:
            self._shrink()

    def _shrink(self) -> None:
        if self._number <= MOST_PAIRS:
            return
        every = np.concatenate(self._kept)
        order = np.argpartition(-every["cosine"], MOST_PAIRS - 1)[:MOST_PAIRS]
        self._kept, self._number, self.cut = [every[order]], MOST_PAIRS, True
        self._floor = every["cosine"][order].min()

    def all(self) -> list[tuple[int, int, float]]:
        """What is kept."""
        self._shrink()
        return [row for part in self._kept for row in part.tolist()]


def _without(block: Block, done: set[bytes]) -> Block:
    keep = np.array([i.tobytes() not in done for i in block.ids], bool)
    return Block(block.ids[keep], block.changed[keep], block.groups[keep], block.vectors[keep])


def _joined(arrays: list[NDArray[Any]], like: Any) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, like)


def in_order(pairs: list[Pair]) -> list[Pair]:
    """Nearest first; each once."""
    return sorted(dict.fromkeys(pairs), key=lambda pair: (-pair.cosine, pair.first, pair.second))
