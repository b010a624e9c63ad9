"""What kind of memory a sentence makes, and how good a memory it is: one table of cues in the order of the kinds, and a
score built from the cue, from what the sentence names, and from marks of what is no memory (plans, praise, offers)."""

from __future__ import annotations

import re
from typing import NamedTuple

from cems.models import Kind
from observer.rules_text import UNSPACED, Sentence
from observer.rules_title import strip_lead_in

_MARGIN = 0.04
THRESHOLD = 0.62
"""A sentence that scores less is not worth a memory."""


class Cue(NamedTuple):
    """One way a kind is put into words."""

    kind: Kind
    strength: float
    """0.8 says so itself; 0.65 usually means it; 0.5 needs help: names, a reason, a good place."""
    pattern: re.Pattern[str]
    also: re.Pattern[str] | None = None
    """Has to be there too."""
    where: str = ""
    """`defect`: only in a turn about something broken; `changed`: only where files changed; `named`: only in a sentence
    that names something of the project."""


class About(NamedTuple):
    """What the whole turn says about its sentences."""

    defect: bool
    changed: bool


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.I)


REASON = _re(
    r"\b(?:because|since (?!yesterday|monday|tuesday|wednesday|thursday|friday|saturday|sunday|then|last|this|the last|v?\d)|so that|"
    r"due to|caused by|came from|comes from|stems? from|the (?:root )?cause|reason|trade-?offs?|otherwise|which (?:means|caused|made|breaks|broke)|in order to|"
    r"weil|denn|damit|deshalb|sonst|porque|ya que|para que|parce que|car|puisque|afin de)\b|ので|ため|から、|因为|때문"
)
_CONTRAST = _re(r"\b(?:over|instead of|rather than|in favou?r of|against|not|than|statt|anstelle|en (?:vez|lugar) de|plutôt que|au lieu de)\b|ではなく|の代わり")
_CAUSE = _re(r"\b(?:because|came from|due to|caused by|stem(?:s|med) from|as a result of|weil|porque|parce que)\b|(?<!^)\bsince (?!then|last|this|\d)|ため|ので")
_WHY_BACK = _re(REASON.pattern + r"|\bso (?:i|we|it)\b|: ")
_SO = _re(r"\b(?:so|because|since|but|and|as|:)\b|[:,]")
_FAILING = _re(
    r"\b(?:fail(?:s|ed|ing|ure)?|broken?|breaks|broke|crash\w*|hang(?:s|ing)?|hung|stuck|wrong(?:ly)?|leak\w*|jump(?:s|ed)|twice|double|"
    r"duplicated?|repeat(?:s|ed)|stale|incorrect(?:ly)?|rejects?|rejected|unexpected(?:ly)?|deadlock\w*|timed? ?out|"
    r"scheiter\w*|schlug|schlägt|fallaba|falla|échoue|échouait)\b|エラー|失敗|壊れ"
)
DEFECT = _re(
    r"\b(?:fail(?:s|ed|ing|ure)?|broken?|breaks|broke|bug(?:s|gy)?|crash\w*|hang(?:s|ing)?|hung|stuck|wrong(?:ly)?|missing|leak\w*|jump(?:s|ed)|twice|"
    r"duplicates?d?|repeat(?:s|ed)|stale|errors?|exceptions?|incorrect(?:ly)?|rejects?|rejected|unexpected(?:ly)?|race condition|deadlock\w*|timed? ?out|slow|"
    r"doesn'?t work|not working|doesn'?t|fix|kaputt|fehler|schlägt|error|falla|échoue|cassé)\b|エラー|壊れ|バグ|失敗"
)

CUES: tuple[Cue, ...] = (
    # decision: options weighed
    Cue("decision", 0.8, _re(r"\b(?:chose|chosen|picked|opted|settled on|went with|going with|decided|entschieden|gewählt|elegi(?:mos|do)|decidi(?:mos|do)|choisi)\b|に決め|を選"), _CONTRAST),
    Cue("decision", 0.75, _re(r"\b(?:chose|picked|opted|settled on|went with|decided|entschieden|gewählt|elegimos|decidimos|choisi)\b|に決め|を選"), REASON),
    Cue("decision", 0.8, _re(r"\b(?:replaced?|switched|moved|migrated|dropped|we (?:drop|keep|stay|use)|kept|ersetzt|umgestellt|reemplaza(?:mos|do)|remplacé)\b"), REASON),
    Cue("decision", 0.7, _re(r"^we (?:drop|keep|stay with|go with|abandon|replace|switch)\b|^(?:we|i)(?:'ll| will) (?:go with|stay with|stick with)\b"), _re(r":|\bonly\b|\binstead\b|,")),
    Cue("decision", 0.55, _re(r"\b(?:instead of|rather than)\b(?! (?:\w+ly )?\w+ing\b)|\bin favou?r of\b|\bstatt\b|ではなく"), None, "changed"),
    # deadend: tried, failed, reverted
    Cue("deadend", 0.85, _re(r"\b(?:reverted|rolled back|gave up|given up|backed out|abandoned|undid|zurückgenommen|zurückgerollt|verworfen|aufgegeben|revertimos|revertido|annulé|abandonné)\b|元に戻し"), _WHY_BACK),
    Cue("deadend", 0.8, _re(r"\btried\b|\bversucht\b|\bprobamos\b|\bessayé\b|試し"), _re(r"\b(?:reverted|did(?:n'?t| not) (?:work|help)|but (?:it|that|they|this)|fail(?:s|ed)|aber|pero|mais)\b|が、")),
    Cue("deadend", 0.7, _re(r"\b(?:did(?:n'?t| not)|does(?:n'?t| not)|won'?t|can(?:no|')t) (?:work|help|scale)\b|\bdead end\b|\bnot (?:viable|feasible)\b|\bturned out (?:to be )?(?:worse|impossible|slower)\b"), _SO, "named"),
    # bugfix: what was wrong and why
    Cue("bugfix", 0.8, _re(r"\b(?:root cause|culprit)\b|\bthe (?:real |actual |underlying |main )?(?:cause|bug|reason)(?: here)? (?:was|is|turned out|came)\b|\bursache (?:war|ist)\b|\bla causa (?:era|es|fue)\b|\bla cause (?:était|est)\b|原因は")),
    Cue("bugfix", 0.74, _re(r"(?:^|\bthe )(?:real |actual |underlying |main )?(?:issue|problem|cause|bug)(?: here| \d)?(?: (?:was|is)(?! (?:with|on|for)\b)|:)")),
    Cue("bugfix", 0.78, _FAILING, _CAUSE),
    Cue("bugfix", 0.66, _CAUSE, None, "defect named"),
    Cue("bugfix", 0.62, _re(r"^fixed\b|\bfixed (?:by|in|the|a|an)\b|\bfixes (?:the|a|an)\b|\bbehoben\b|\bcorregi(?:do|mos)\b|\bcorrigé\b|修正し"), None, "named"),
    Cue("bugfix", 0.55, _re(r"\bno longer\b|\b(?:instead of|rather than) (?:\w+ly )?\w+ing\b"), None, "defect"),
    # pattern: how things are done here
    Cue("pattern", 0.78, _re(r"\bin (?:this|our) (?:repo|repository|project|codebase|monorepo|package)\b|\bconventions?\b|\bthe (?:usual|correct|proper|right) (?:way|command|order|place)\b|\bthe way to\b"), None, "named"),
    Cue("pattern", 0.75, _re(r"\b(?:is|are) (?:always )?(?:made|done|run|built|deployed|released|generated|managed|added|created|applied|tested) (?:with|by|via|from|through|using)\b|\b(?:a|each|every|the) release is\b"), None, "named"),
    Cue("pattern", 0.72, _re(r"\b(?:has|have|had) to (?:be|come|run|use)\b|\bmust (?:be|come|not|have|pass|run|use|start|call|exit|go)\b|\bneeds? (?:to be|--?\w)|\bonly works? (?:if|when|with|after)\b|\bmuss\b|\bmüssen\b|\bdebe\b|\bdoit\b|必要があ"), None, "named"),
    # context: what is so
    Cue("context", 0.7, _re(r"\bowns\b|\bowned by\b|\bmaintained by\b|\b\w+(?:'s?|s')? job\b|\bresponsible for\b|(?<!=)=\s*\d+\.\d+\.\d+\.\d+")),
    Cue("context", 0.68, _re(r"\b(?:prod|production|staging|stage|dev|ci|server|cluster|box|host|machine)\b[^.;]{0,40}\b(?:runs|has|uses|is|läuft)\b[^.;]{0,40}\d+\.\d")),
    Cue("context", 0.66, _re(r"\b(?:lives?|stored|kept|defined|configured|loaded|served|hosted|sits|located) (?:in|at|on|under|by)\b|\b(?:takes?|gets?|reads?|loads?) (?:its|their) \w+.{0,40} from\b|\blistens? on\b|\bdefaults? to\b|\bby default\b|\bonly (?:speaks|supports|accepts|used by|runs|works|knows|applies|fixes)\b|\bnone of (?:them|which)\b"), None, "named"),
    Cue("context", 0.66, _re(r"\b(?:will|would) fail\b|\bfails? (?:if|when|unless|without)\b|\b(?:doesn'?t|does not|can'?t|cannot|won'?t) (?:support|access|handle|see|reach|allow|expose|accept|catch|cover|run in)\b"), None, "named"),
    Cue("context", 0.56, _re(r"\b(?:uses|calls|returns|reads|writes|stores|tracks|sends|sending|expects|ignores|drops|rejects|inherits|depends on|refers to|creates|emits|contains|requires)\b"), None, "named"),
    Cue("context", 0.52, _re(r"^(?:\w+ly )?(?:added|updated|moved|renamed|removed|replaced|created|implemented|changed|switched|introduced|deleted|extracted|disabled|enabled|refactored|converted|merged|excluded|wired|inverted|split|made|set|bumped)\b|\b(?:has|have) been (?:\w+ed)\b|\b(?:is|are) now\b|\b(?:will )?now (?:be |\w+s\b)"), None, "changed named"),
)

# The speaker's intentions, offers and courtesies: nothing that is so.
_PLAN = _re(
    r"^(?:(?:now|next|then|first|ok(?:ay)?|so|good|great|perfect|excellent|and|but|actually|alright|step \d+)[,.:!]? )*(?:let me|let's|lets|i'?ll|i will|i'm going to|i am going to|i'm (?:now |still )?\w+ing|i need to|"
    r"i should|i can\b|i could|i want to|i'd|i would|we'?ll|we will|we need to|we should|we can|we could|we'd|you can|you could|you should|you'll|you may|you might|you'd|you need|going to|shall|want me|"
    r"feel free|if you|if we|here'?s|here are|this is my|my (?:plan|recommendation)|based on|looking at|now (?:i|that|fix|add|update|create|run|check)|time to|ready (?:to|for)|to (?:fix|debug|do|test|add|make|verify|address)|"
    r"ich werde|lass mich|voy a|vamos a|je vais|次に)"
)
_INTENT = _re(r"\b(?:i'll|let me|i will|i'm going to|we'll|we will)\b")
_OFFER = _re(r"\b(?:would you like|want me to|should i|shall i|do you want|let me know|say the word|happy to|feel free)\b")
_HEDGE = _re(r"\b(?:might|may be|maybe|perhaps|probably|possibly|could be|seems?|appears?|i think|i believe|i guess|likely|should (?:now )?(?:work|pass|be|fix)|hypothesis|vielleicht|quizás|peut-être)\b|かもしれ")
_CHOICE = _re(r"\bi(?:'d| would) (?:take|use|go|pick|choose|suggest|recommend|keep|say|prefer)\b|\boptions?\b.{0,20}:|\brecommendation\b|\bwhich (?:one )?(?:do|would) you\b")
_LOG = _re(r"\[(?:error|info|warn|debug)|\d{4}-\d\d-\d\dt\d\d|\bat \S+:\d+:\d+")
_REQUEST = _re(
    r"^(?:(?:ok|yes|no|now|then|and|also|so|but|next|agreed|good)[,.:;]? )*(?:please|pls|bitte|can|could|would|let'?s|lets|i want|i'd like|i would like|i need|i think|we need|we should|we want|try|make|next:|"
    r"maybe|the test|should|have a look|por favor|quiero|je veux|peux-tu|kannst du)\b"
)
_TRIVIAL = _re(r"\b(?:lint\w*|type annotations?|typescript errors?|type errors?|format(?:ting|ted)|comments?|typos?|assertions?|unused|imports?|warnings?|whitespace|rebased?|all fixes|various|summary)\b")
_NUMBERED = _re(r"\b(?:option|approach|step|solution|variant|alternative|phase|task|point) (?:\d|[a-c]\b)|#\d")
_TRANSIENT = _re(r"\b(?:we|i) just\b|\bcurrently\b|\bat the moment\b|\bright now\b|\bso far\b|\bnot yet\b|\bin progress\b")
_THIS = _re(r"\bthis (?:bug|issue|error|problem|change|approach)\b")
_PASSING = _re(r"^(?:the )?(?:push|commit|build|tests?|typecheck|edit|command|hook|ci|check)s? (?:is |are |was )?fail|^already\b")
_HALF = _re(r"^(?:when|if|since|after|before|while|although|once|unless|wenn|cuando|si|quand)\b[^,]*$|(?:because|are|is|following|with|to|by|the|include|includes|like|but|and)[:.…]*$")
_TASTE = _re(r"\bi (?:personally |really |always )?(?:prefer|like|love|hate|favou?r)\b")
_POINTER = _re(r"^(?:this|that|it|its|they|these|those|he|she|there'?s|here|the (?:above|following|latter|former)|both|all of|same|which|das|dies|es|sie|eso|esto|ce|cela|ça)\b|^これ|^それ")
_HYPE = _re(
    r"\b(?:(?:is|are) now working|works? (?:correctly|perfectly|now|as expected)|production[- ]ready|fully|comprehensive(?:ly)?|professional|robust|seamless(?:ly)?|successful(?:ly)?|complete[d!]?|excellent|perfect(?:ly)?|systematic(?:ally)?|"
    r"all (?:\w+ )?(?:tests?|checks?|quality checks|hooks) (?:now )?pass\w*|tests? (?:all )?pass(?:es|ing)?|according to (?:the )?(?:plan|requirements|spec)|great|modern|intuitive|enhanced|graceful(?:ly)?|best practices)\b"
)
_CHATTER = _re(r"^(?:done|all (?:tests|set|good|checks)|everything|understood|got it|thanks|you'?re|committed|pushed|tests pass|no (?:linting )?errors|success|great|good|perfect|excellent|sorry|yes|no)\b[^:;,]{0,60}$")
_ORDER = _re(r"^(?:add|remove|update|create|fix|change|implement|modify|replace|write|use|run|check|test|handle|move|delete|rename|build|make|set|verify|include|keep|commit|revert|accept|consider|spawns?|listen|parse|store|pass|document|simplify|try|look|find|install|ensure|convert|extract|apply|configure|enable|disable)\b")
_DRAFT_SECTION = _re(r"\b(?:plan|options?|comparison|candidates|pros|cons|next steps?|to-?do|remaining|proposed?|proposal|recommend\w*|test (?:plan|scenarios?|results?)|usage|example|implementation (?:steps|sketch)|what happens|prerequisites|expected|scenarios?|future|questions?|benefits?|approach|hypothesis|needed|alternatives?|strengths?|status|features?)\b")
_TELLING_SECTION = _re(r"\b(?:root cause|summary|changes?|changed|fix(?:es|ed)?|how it works|key|cause|why|analysis|done|reasons?)\b")
_OPENING = 3
_FEW_WORDS = 8
_SURE = 0.65
_WEAKEST = 0.52
_SEVERAL = 2
_NAMES = (
    re.compile(r"`[^`\n]+`"),
    re.compile(r"(?<!\w)[\w.@~-]*/[\w./@-]*\w|\b\w+\.(?:py|ts|tsx|js|jsx|go|rs|rb|ex|exs|java|kt|c|h|cpp|sh|sql|json|ya?ml|toml|md|css|html|ini|cfg|lock|env|tf|j2)\b"),
    re.compile(r"\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b|\b\w+_\w+\b|(?<!\w)--?[a-z][\w-]+\b|\b\w+\(\)|\b[A-Z][A-Z0-9]{1,}\b"),
    re.compile(r"\b\d[\d.,:]*(?:\s?(?:%|ms|s|kB|KB|MB|GB|MiB|k|px|rows|UTC))?"),
    re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b"),
)


_COMMON = frozenset("PR CI API URL UI OK TODO NOT AND OR IMPORTANT NOTE CLI HTTP JSON ID LLM AI I A".split())


def names_in(raw: str) -> int:
    """How many things of the project a sentence names: code, paths, flags, numbers, proper names; at most 6 count."""
    found: set[str] = set()
    for pattern in _NAMES:
        found.update(name for m in pattern.finditer(raw) if (name := m[0].strip("`")) not in _COMMON)
        if len(found) >= 6:
            return 6
    return len(found)


def proposes(text: str) -> bool:
    """Whether an answer lays out what could be done, or asks what to do."""
    return bool(_OFFER.search(text) or _CHOICE.search(text))


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


def fault_of(sentence: Sentence, by_user: bool) -> float:
    """How much speaks against a sentence as a memory; 1 or more forbids it."""
    text = sentence.text
    words = len(text.split())
    if text.endswith("?") or "[secret:" in text or "@@" in text or _HALF.search(text) or _LOG.search(text) or _OFFER.search(text) or _CHATTER.search(text):
        return 1.0
    if words < 5 and len(UNSPACED.findall(text)) < 12:
        return 1.0
    text = strip_lead_in(text)
    if not by_user and (_PLAN.match(text) or _INTENT.search(text) or _TASTE.search(text) or _ORDER.match(text)):
        return 1.0
    if by_user and (_REQUEST.match(text) or _REQUEST.match(sentence.text) or _ORDER.match(text)):
        return 1.0
    if sentence.section and _DRAFT_SECTION.search(sentence.section):
        return 1.0
    against = 0.0
    if _HEDGE.search(text):
        against += 0.15 if by_user else 0.35
    if _POINTER.match(text):
        against += 0.25
    if _HYPE.search(text):
        against += 0.15
    if text.endswith(":"):
        against += 0.1
    if _TRIVIAL.search(text):
        against += 0.2
    if _NUMBERED.search(text):
        against += 0.25
    if _TRANSIENT.search(text):
        against += 0.15
    if _THIS.search(text):
        against += 0.08
    if _PASSING.match(text):
        against += 0.2
    if len(text) > 350:
        against += 0.1
    return against


def score_of(sentence: Sentence, cue: Cue, names: int, about: About, *, final: bool, by_user: bool) -> float:
    """What speaks for a sentence as a memory, from 0 to about 1.1. The last answer counts more, and most in it how it begins."""
    value = cue.strength + 0.03 * min(names, 5)
    if REASON.search(sentence.text):
        value += 0.06
    if final:
        value += 0.11 if sentence.index < _OPENING and not sentence.listed else 0.05
    elif by_user:
        value += 0.1
    elif about.changed:
        # Said before the last change: it may not be so any more.
        value -= 0.1 if cue.strength < _SURE else 0.05
    if sentence.section and _TELLING_SECTION.search(sentence.section):
        value += 0.03
    if sentence.listed:
        value -= 0.04
    if names < _SEVERAL and cue.strength <= _WEAKEST and not REASON.search(sentence.text):
        value -= 0.05
    if not names and len(sentence.text.split()) < _FEW_WORDS:
        value -= 0.15
    return value
