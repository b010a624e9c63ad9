"""What kind of memory a sentence makes: one table of cues, in the order of the kinds. A cue is a way people
put a decision, a dead end, a mended fault, a way of doing things or a fact; how good the sentence is,
`observer.worth` says."""

from __future__ import annotations

import re
from typing import NamedTuple

from cems.models import Kind
from observer.rules_text import Sentence

_MARGIN = 0.04


class Cue(NamedTuple):
    """One way a kind is put into words."""

    kind: Kind
    strength: float
    """0.8 says so itself; 0.65 usually means it; 0.5 needs help: names, a reason, a good place."""
    pattern: re.Pattern[str]
    also: re.Pattern[str] | None = None
    """Has to be there too."""
    where: str = ""
    """`defect`: only in a turn about something broken; `changed`: only where files changed; `named`: only in
    a sentence that names something of the project."""


class About(NamedTuple):
    """What the whole turn says about its sentences."""

    defect: bool
    changed: bool


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.I)


REASON = _re(
    r"\b(?:because|since (?!yesterday|monday|tuesday|wednesday|thursday|friday|saturday|"
    r"sunday|then|last|this|the last|v?\d)|so that|"
    r"due to|caused by|came from|comes from|stems? from|the (?:root )?cause|reason|"
    r"trade-?offs?|otherwise|which (?:means|caused|made|breaks|broke)|in order to|"
    r"weil|denn|damit|deshalb|sonst|porque|ya que|para que|parce que|car|puisque|afin de)\b|"
    r"ので|ため|から、|因为|때문"
)
_CONTRAST = _re(
    r"\b(?:over|instead of|rather than|in favou?r of|against|not|than|statt|anstelle|"
    r"en (?:vez|lugar) de|plutôt que|au lieu de)\b|ではなく|の代わり"
)
_CAUSE = _re(
    r"\b(?:because|came from|due to|caused by|stem(?:s|med) from|as a result of|weil|"
    r"porque|parce que)\b|(?<!^)\bsince (?!then|last|this|\d)|ため|ので"
)
_WHY_BACK = _re(REASON.pattern + r"|\bso (?:i|we|it)\b|: ")
_SO = _re(r"\b(?:so|because|since|but|and|as|:)\b|[:,]")
_FAILING = _re(
    r"\b(?:fail(?:s|ed|ing|ure)?|broken?|breaks|broke|crash\w*|hang(?:s|ing)?|hung|stuck|"
    r"wrong(?:ly)?|leak\w*|jump(?:s|ed)|twice|double|"
    r"duplicated?|repeat(?:s|ed)|stale|incorrect(?:ly)?|rejects?|rejected|"
    r"unexpected(?:ly)?|deadlock\w*|timed? ?out|"
    r"scheiter\w*|schlug|schlägt|fallaba|falla|échoue|échouait)\b|エラー|失敗|壊れ"
)
DEFECT = _re(
    r"\b(?:fail(?:s|ed|ing|ure)?|broken?|breaks|broke|bug(?:s|gy)?|crash\w*|hang(?:s|"
    r"ing)?|hung|stuck|wrong(?:ly)?|missing|leak\w*|jump(?:s|ed)|twice|"
    r"duplicates?d?|repeat(?:s|ed)|stale|errors?|exceptions?|incorrect(?:ly)?|rejects?|"
    r"rejected|unexpected(?:ly)?|race condition|deadlock\w*|timed? ?out|slow|"
    r"doesn'?t work|not working|doesn'?t|fix|kaputt|fehler|schlägt|error|falla|échoue|cassé)\b|"
    r"エラー|壊れ|バグ|失敗"
)

CUES: tuple[Cue, ...] = (
    # decision: options weighed
    Cue(
        "decision",
        0.8,
        _re(
            r"\b(?:chose|chosen|picked|opted|settled on|went with|going with|decided|entschieden|"
            r"gewählt|elegi(?:mos|do)|decidi(?:mos|do)|choisi)\b|に決め|を選"
        ),
        _CONTRAST,
    ),
    Cue(
        "decision",
        0.75,
        _re(
            r"\b(?:chose|picked|opted|settled on|went with|decided|entschieden|gewählt|elegimos|"
            r"decidimos|choisi)\b|に決め|を選"
        ),
        REASON,
    ),
    Cue(
        "decision",
        0.8,
        _re(
            r"\b(?:replaced?|switched|moved|migrated|dropped|we (?:drop|keep|stay|use)|kept|"
            r"ersetzt|umgestellt|reemplaza(?:mos|do)|remplacé)\b"
        ),
        REASON,
    ),
    Cue(
        "decision",
        0.7,
        _re(
            r"^we (?:drop|keep|stay with|go with|abandon|replace|switch)\b|^(?:we|i)(?:'ll|"
            r" will) (?:go with|stay with|stick with)\b"
        ),
        _re(r":|\bonly\b|\binstead\b|,"),
    ),
    Cue(
        "decision",
        0.55,
        _re(
            r"\b(?:instead of|rather than)\b(?! (?:\w+ly )?\w+ing\b)|\bin favou?r of\b|\bstatt\b|"
            r"ではなく"
        ),
        None,
        "changed",
    ),
    # deadend: tried, failed, reverted
    Cue(
        "deadend",
        0.85,
        _re(
            r"\b(?:reverted|rolled back|gave up|given up|backed out|abandoned|undid|"
            r"zurückgenommen|zurückgerollt|verworfen|aufgegeben|revertimos|revertido|annulé|"
            r"abandonné)\b|元に戻し"
        ),
        _WHY_BACK,
    ),
    Cue(
        "deadend",
        0.8,
        _re(r"\btried\b|\bversucht\b|\bprobamos\b|\bessayé\b|試し"),
        _re(
            r"\b(?:reverted|did(?:n'?t| not) (?:work|help)|but (?:it|that|they|this)|fail(?:s|ed)|"
            r"aber|pero|mais)\b|が、"
        ),
    ),
    Cue(
        "deadend",
        0.7,
        _re(
            r"\b(?:did(?:n'?t| not)|does(?:n'?t| not)|won'?t|can(?:no|')t) (?:work|help|scale)\b|"
            r"\bdead end\b|\bnot (?:viable|feasible)\b|\bturned out (?:to be )?(?:worse|"
            r"impossible|slower)\b"
        ),
        _SO,
        "named",
    ),
    # bugfix: what was wrong and why
    Cue(
        "bugfix",
        0.8,
        _re(
            r"\b(?:root cause|culprit)\b|\bthe (?:real |actual |underlying |main )?(?:cause|bug|"
            r"reason)(?: here)? (?:was|is|turned out|came)\b|\bursache (?:war|ist)\b|"
            r"\bla causa (?:era|es|fue)\b|\bla cause (?:était|est)\b|原因は"
        ),
    ),
    Cue(
        "bugfix",
        0.74,
        _re(
            r"(?:^|\bthe )(?:real |actual |underlying |main )?(?:issue|problem|cause|bug)(?: here|"
            r" \d)?(?: (?:was|is)(?! (?:with|on|for)\b)|:)"
        ),
    ),
    Cue("bugfix", 0.78, _FAILING, _CAUSE),
    Cue("bugfix", 0.66, _CAUSE, None, "defect named"),
    Cue(
        "bugfix",
        0.62,
        _re(
            r"^fixed\b|\bfixed (?:by|in|the|a|an)\b|\bfixes (?:the|a|an)\b|\bbehoben\b|"
            r"\bcorregi(?:do|mos)\b|\bcorrigé\b|修正し"
        ),
        None,
        "named",
    ),
    Cue(
        "bugfix", 0.55, _re(r"\bno longer\b|\b(?:instead of|rather than) (?:\w+ly )?\w+ing\b"), None, "defect"
    ),
    # pattern: how things are done here
    Cue(
        "pattern",
        0.78,
        _re(
            r"\bin (?:this|our) (?:repo|repository|project|codebase|monorepo|package)\b|"
            r"\bconventions?\b|\bthe (?:usual|correct|proper|right) (?:way|command|order|place)\b|"
            r"\bthe way to\b"
        ),
        None,
        "named",
    ),
    Cue(
        "pattern",
        0.75,
        _re(
            r"\b(?:is|are) (?:always )?(?:made|done|run|built|deployed|released|generated|managed|"
            r"added|created|applied|tested) (?:with|by|via|from|through|using)\b|\b(?:a|each|"
            r"every|the) release is\b"
        ),
        None,
        "named",
    ),
    Cue(
        "pattern",
        0.72,
        _re(
            r"\b(?:has|have|had) to (?:be|come|run|use)\b|\bmust (?:be|come|not|have|pass|run|use|"
            r"start|call|exit|go)\b|\bneeds? (?:to be|--?\w)|\bonly works? (?:if|when|with|"
            r"after)\b|\bmuss\b|\bmüssen\b|\bdebe\b|\bdoit\b|必要があ"
        ),
        None,
        "named",
    ),
    # context: what is so
    Cue(
        "context",
        0.7,
        _re(
            r"\bowns\b|\bowned by\b|\bmaintained by\b|\b\w+(?:'s?|s')? job\b|\bresponsible for\b|"
            r"(?<!=)=\s*\d+\.\d+\.\d+\.\d+"
        ),
    ),
    Cue(
        "context",
        0.68,
        _re(
            r"\b(?:prod|production|staging|stage|dev|ci|server|cluster|box|host|"
            r"machine)\b[^.;]{0,40}\b(?:runs|has|uses|is|läuft)\b[^.;]{0,40}\d+\.\d"
        ),
    ),
    Cue(
        "context",
        0.66,
        _re(
            r"\b(?:lives?|stored|kept|defined|configured|loaded|served|hosted|sits|located) (?:in|"
            r"at|on|under|by)\b|\b(?:takes?|gets?|reads?|loads?) (?:its|their) \w+.{0,40} from\b|"
            r"\blistens? on\b|\bdefaults? to\b|\bby default\b|\bonly (?:speaks|supports|accepts|"
            r"used by|runs|works|knows|applies|fixes)\b|\bnone of (?:them|which)\b"
        ),
        None,
        "named",
    ),
    Cue(
        "context",
        0.66,
        _re(
            r"\b(?:will|would) fail\b|\bfails? (?:if|when|unless|without)\b|\b(?:doesn'?t|"
            r"does not|can'?t|cannot|won'?t) (?:support|access|handle|see|reach|allow|expose|"
            r"accept|catch|cover|run in)\b"
        ),
        None,
        "named",
    ),
    Cue(
        "context",
        0.56,
        _re(
            r"\b(?:uses|calls|returns|reads|writes|stores|tracks|sends|sending|expects|ignores|"
            r"drops|rejects|inherits|depends on|refers to|creates|emits|contains|requires)\b"
        ),
        None,
        "named",
    ),
    Cue(
        "context",
        0.52,
        _re(
            r"^(?:\w+ly )?(?:added|updated|moved|renamed|removed|replaced|created|implemented|"
            r"changed|switched|introduced|deleted|extracted|disabled|enabled|refactored|converted|"
            r"merged|excluded|wired|inverted|split|made|set|bumped)\b|\b(?:has|"
            r"have) been (?:\w+ed)\b|\b(?:is|are) now\b|\b(?:will )?now (?:be |\w+s\b)"
        ),
        None,
        "changed named",
    ),
)


def cue_of(sentence: Sentence, about: About, names: int) -> Cue | None:
    """The cue that decides: of the strongest ones the first in the order of the kinds."""
    words = f"{sentence.label}: {sentence.text}" if sentence.label else sentence.text
    known = {"defect": about.defect, "changed": about.changed, "named": names > 0}
    best: Cue | None = None
    for cue in CUES:
        if best and cue.strength <= best.strength + (_MARGIN if cue.kind != best.kind else 0.0):
            continue
        if not all(known[place] for place in cue.where.split()):
            continue
        if cue.pattern.search(words) and (cue.also is None or cue.also.search(words)):
            best = cue
    return best
