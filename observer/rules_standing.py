"""Standing rules in a user's own words: "always …", "never …", "from now on …", in several languages. A rule
holds beyond this turn; an instruction for now, a description ("always fails") and a question are none."""

from __future__ import annotations

import re
from typing import NamedTuple


class Standing(NamedTuple):
    """One way to state a rule."""

    strength: float
    """How surely it is a rule: 0.9 says so itself, 0.75 is a rule as people speak, 0.6 may have been meant
    for now."""
    pattern: re.Pattern[str]


def _cue(strength: float, pattern: str) -> Standing:
    return Standing(strength, re.compile(pattern, re.I))


# A verb somebody orders, in front of what the order is about; bare plurals ("comments") make it general.
_DOING = (
    r"(?:add|use|write|create|commit|push|merge|mock|put|leave|generate|install|import|"
    r"deploy|run|touch|change|edit|format|name|return|log|hardcode|hard-code|skip|include|"
    r"introduce|rely|squash|rebase|amend|apply|delete|test|check|keep|ask|update|document|"
    r"prefer|make|call|do|give|start|go|force|guess|assume|disable|ignore|invent|set|"
    r"store|show|let|link|follow|work|try|open|end|begin|comment|refactor|rename|pin|"
    r"mention)"
)
_EN = (
    _cue(
        0.9,
        r"\bfrom now on\b|\bgoing forward\b|\bin (?:the )?future\b[,:]?|"
        r"\bas a (?:general )?rule\b|\b(?:house|ground) rule\b",
    ),
    _cue(0.9, r"\b(?:not|non-?)\s?negotiable\b|\bno exceptions\b|\bwithout exception\b"),
    _cue(
        0.9,
        rf"(?:^|[,;:–—-] ?|\b(?:please|pls|btw|and|but|also|should|must|to|then|ok|we|you|i|so|"
        rf"just) )(?:always|never|don'?t ever|do not ever) {_DOING}\b",
    ),
    _cue(
        0.9,
        r"\b(?:use|using|uses|run|prefer|want) [^.;]{1,60}?(?:,| and|,? but) (?:never|"
        r"not) (?!yet\b|now\b|sure\b)\S",
    ),
    _cue(
        0.9,
        r"\bi (?:always |really |strongly |generally |usually )?(?:prefer|hate|dislike|"
        r"can'?t stand)\b(?! (?:this|that|it)\b)|\bi (?:do not|don'?t) (?:like (?!the |this |"
        r"that |it\b)|want you to\b)|\bmy preference is\b",
    ),
    _cue(
        0.85,
        r"\bwe (?:only|always|never|don'?t ever) (?:use|write|deploy|commit|merge|run|squash|"
        r"rebase|name|test|push|release|keep|put|mock|ship|support)\b|\bwe(?:'re|"
        r" are) (?:only )?using \w+ only\b|\bwe (?:use|are using) \S+(?: \S+)? only\b|"
        r"\bwe (?:use|run|write) [^.;,]{1,40}?,? (?:not|instead of|rather than) \w",
    ),
    _cue(
        0.85,
        r"\b(?:don'?t|do not|dont|never|stop)\b[^.;]{1,80}\bagain\b|"
        r"\byou forgot [^.;]{0,30}again\b|\bhow (?:many times|often) do i\b",
    ),
    _cue(
        0.85,
        r"\b(?:please |pls )?(?:make sure|be sure|remember|try)(?: that you| you|"
        r" to)? (?:to )?always\b|\b(?:please |pls )?(?:remember|keep in mind) (?:that )?(?:we|"
        r"i|this (?:repo|project))\b",
    ),
    _cue(
        0.8,
        rf"\b(?:(?:every|each|any) ?time|whenever) (?:you|we) [^,;]{{2,80}}, (?:please |also |"
        rf"then |you (?:must|should) )?(?:{_DOING}\b|[a-z]+ (?:the|a|an|all|every|your|its) )|"
        rf"(?:^|[,;–-] ?|\bplease |\balso ){_DOING}\b[^.;]{{0,80}}\b(?:(?:every|each|"
        rf"any) ?time|whenever) (?:you|we)\b",
    ),
    _cue(
        0.8,
        r"\bbefore (?:every|each|any) (?:commit|push|release|merge|pr|deploy)\w*\b|"
        r"\bafter (?:every|each|any) (?:change|commit|edit|step|bunch)\b",
    ),
    _cue(
        0.8,
        r"\b(?:let'?s |please |pls |^)stop (?:using|adding|writing|doing|creating|making|"
        r"putting|asking|committing|saying|being|importing|mocking|running)\b",
    ),
    _cue(
        0.8,
        r"\b(?:don'?t|dont|do not|never)\b[^.;]{1,80}\b(?:without|before) (?:asking|my |"
        r"checking with|telling|showing)|\b(?:ask|check with) (?:me|us|him|her|them) (?:first|"
        r"before)\b|\b(?:tell|show) (?:me|us) (?:before|first(?=[,.;!]|$))",
    ),
    _cue(
        0.75,
        rf"(?:^|[,;:–—-] ?|\b(?:please|pls|btw|and|but|also|so|ok) )(?:don'?t|dont|"
        rf"do not) {_DOING} (?!(?:the|this|that|these|those|it|them|any|my|your|our|a|an|"
        rf"anything|everything|so|to|yet|now|for|up|in|on|into|me|us|here|there|about|what|"
        rf"with)\b)(?:[\w-]+ )*?\w+s\b(?!.*\b(?:yet|for now|this time|right now|today|"
        rf"here's)\b)",
    ),
    _cue(
        0.75,
        r"(?:^|[,;:–—-] ?|\b(?:and|but|also|btw|ok|please|"
        r"pls) )no (?:more )?(?:[\w-]+ )?\w+s (?:that|which|in|for|without|with|at|on|please|"
        r"pls)\b(?!.*\b(?:found|yet|so far)\b)",
    ),
    _cue(
        0.75,
        r"\bonly (?:ever )?(?:between|during|on|within|outside|after|before) (?:the )?(?:\d|"
        r"mon|tue|wed|thu|fri|sat|sun|week|working|business|office|night)",
    ),
    _cue(0.7, r"\b(?:don'?t|dont|do not|never) touch\b[^.;]{1,60}\bask \w+|\b(?:is|are) off[- ]limits\b"),
    _cue(
        0.7,
        r"\b(?:in|for) (?:this|our|the whole) (?:repo|repository|project|codebase|code base|"
        r"team)\b[^.;]{0,60}\b(?:use|should|must|never|no|only)\b|\b(?:use|keep|put|"
        r"write) [^.;]{1,60} (?:in|for|across) (?:this|our|the whole|all) (?:repo|repository|"
        r"project|codebase|code base|team|files|tests)s?\b",
    ),
    _cue(
        0.65,
        r"^(?:please |pls |and |also |let'?s |lets )*keep (?:all |our |my )[^.;]{3,60} (?:in|"
        r"on|under|at) \w+",
    ),
)
_DE = (
    _cue(
        0.9,
        r"\b(?:ab jetzt|ab sofort|von nun an|von jetzt an|künftig|zukünftig|in zukunft|"
        r"grundsätzlich)\b",
    ),
    _cue(
        0.9,
        r"(?:^|[,;:] ?|\b(?:und|bitte|aber|auch|du sollst|immer|wir) )(?:nie(?:mals)?|"
        r"niemals) (?!wieder passiert|funktion|gesehen|gehört|gewesen|klappt|durch)\w+",
    ),
    _cue(
        0.85,
        r"\b(?:bitte|verwende|verwendet|nutze|nutzt|benutze|schreib|schreibe|mach|mache|lass|"
        r"nimm|führe|prüfe|teste|committe|pushe|frag|frage|wir (?:nutzen|verwenden|benutzen|"
        r"schreiben)) (?:[\wäöüß-]+ ){0,3}(?:immer|nie|niemals|nur noch)\b(?! (?:noch|wieder|"
        r"mehr|weiter))",
    ),
    _cue(
        0.85,
        r"\bimmer (?:erst|zuerst|mit|über|vor|nach|auf|in|den|die|das|alle) [^.;]{2,60}(?:en|"
        r"ern|eln)\b[.!]?$",
    ),
    _cue(
        0.9,
        r"\bich (?:bevorzuge|hasse|mag (?:es )?(?:nicht|kein\w*)|möchte (?:nicht|kein\w*)|"
        r"will (?:nicht|kein\w*))\b",
    ),
    _cue(0.85, r"\bwir (?:nutzen|verwenden|benutzen|nehmen) [^.;]{1,50}?,? (?:nicht|statt|und nicht|nie)\b"),
    _cue(
        0.75,
        r"\bbitte (?:keine|kein|keinen|nicht mehr)\b(?!.*\b(?:mehr fragen|jetzt|heute)\b)|"
        r"\bnicht (?:schon )?wieder\b.*\bbitte\b",
    ),
)
_ROMANCE = (
    _cue(0.9, r"\b(?:a partir de ahora|de ahora en adelante|en adelante|de aquí en adelante)\b"),
    _cue(
        0.9,
        r"(?:^|[,;:¡] ?|\b(?:y|pero|por favor|también|usa|utiliza|usad|escribe|haz|ejecuta|"
        r"corre|pon) )(?:siempre|nunca|jamás) (?!falla|da\b|devuelve|sale|pasa|funciona|ha\b|"
        r"he\b|está|es\b|me\b|se\b)\w+",
    ),
    _cue(0.9, r"\b(?:yo )?prefiero\b|\bodio (?:que|los|las|el|la)\b|\bno (?:me gusta|quiero que)\b"),
    _cue(
        0.8,
        r"\b(?:usamos|utilizamos) [^.;]{1,50}?,? (?:no|nunca|en (?:vez|lugar) de)\b|"
        r"\bno (?:uses|utilices|agregues|añadas|pongas|escribas|hagas|vuelvas a)\b",
    ),
    _cue(0.9, r"\b(?:désormais|dorénavant|à partir de maintenant|à l'avenir|d'ores et déjà)\b"),
    _cue(
        0.9,
        r"(?:^|[,;:] ?|\b(?:et|mais|aussi|stp|svp) )(?:utilise|utilisez|fais|faites|mets|"
        r"mettez|écris|écrivez|lance|lancez|garde|gardez|exécute|exécutez|passe|passez|"
        r"vérifie|vérifiez|demande|demandez)[ -](?:[\wéèàç-]+ ){0,2}?(?:toujours|uniquement)\b",
    ),
    _cue(
        0.9,
        r"(?:^|[,;:] ?|\b(?:et|mais|aussi) )(?:toujours (?:\w+er|\w+ir|\w+re)\b|(?:ne|n'|"
        r"n’) ?\w+(?:e|ez|s) jamais\b|ne jamais \w+|jamais de \w+)",
    ),
    _cue(0.9, r"\b(?:je (?:préfère|déteste)|je n'aime pas|je ne veux (?:pas|plus))\b"),
    _cue(
        0.8,
        r"\b(?:on|nous) (?:utilise|utilisons) [^.;]{1,50}?,? (?:pas|jamais|et non|plutôt que|"
        r"au lieu)\b|(?:^|[,;:] ?|\bet )(?:n'utilise[zs]?|n'ajoute[zs]?|ne (?:fais|faites|"
        r"mets|mettez)) (?:pas|plus) (?:de|d'|des)\b",
    ),
    _cue(
        0.9,
        r"\b(?:a partir de agora|daqui (?:em|para a) (?:diante|frente)|d'ora in (?:poi|"
        r"avanti)|vanaf nu|voortaan|fortan|från och med nu|od teraz)\b",
    ),
)
_ASIAN = (
    _cue(
        0.9,
        r"今後|これから(?:は|も)|以降は|常に|必ず.*(?:[てで]ください|して|ように)|いつも.*(?:して|ように)|絶対に|決して|二度と|"
        r"(?:使わない|しない|書かない|入れない|触らない)(?:で(?!す)|ように)|禁止(?:です|して|。|$)",
    ),
    _cue(0.75, r"ようにして(?:ください|下さい|ほしい|欲しい)|の方が好き"),
    _cue(0.9, r"以后|今后|从现在(?:开始|起)|总是要|永远不要|务必|不要再|绝不|一律"),
    _cue(
        0.9,
        r"앞으로(?:는|도)?|항상 .*(?:하세요|해 ?줘|해주세요|할 것)|절대(?:로)? .*(?:마|말)|"
        r"하지 ?(?:마|말)(?:세요|아|고)",
    ),
)
_STANDING = (*_EN, *_DE, *_ROMANCE, *_ASIAN)

# Said with the same words, and no rule.
_NOT_STANDING = re.compile(
    r"\bnever ?mind\b|\bnever again\b|\bthis (?:function|method|test|file|class|component|"
    r"button)\b|\bthe (?:first|second|third|former|latter|other)\b(?: one)?|"
    r"\bnever (?:happened|worked|seen|saw|heard|existed|finishes|returns|ends|tried|"
    r"thought|been|got|get|gets|did)\b|"
    r"\balways (?:fail|break|return|crash|happen|be|been|was|is|show|get|see|time|hit|end|come|work)\w*\b|"
    r"\b(?:for now|this time|just this once|only this|right now|for the moment|until tomorrow|today only)\b|"
    r"\b(?:don'?t|dont|do not) (?:forget|worry|bother|think|know|see|understand|need|have)\b|"
    r"\bimmer (?:noch|wieder|mehr|weiter)\b|\bwie immer\b|\b(?:schlägt|fehlt|kommt|"
    r"bekomme|wird|war|ist|passiert|funktioniert) (?:\w+ )?immer\b|"
    r"\b(?:como|casi|lo de) siempre\b|\b(?:est|marche|échoue|reste|fonctionne|a|y a|"
    r"ai) toujours\b|\btoujours (?:pas|en cours|là|le même|la même)\b|"
    r"\bfor (?:this|that) (?:one|task|pr|change|commit|function|file|test)\b",
    re.I,
)
_QUESTION = re.compile(
    r"[?？]\s*$|^(?:and |but |so |ok |also )*(?:why|how|what|when|where|which|who|does|"
    r"do(?! not\b)|did|is|are|was|were|can|could|should|would|will|has|have|may|might|"
    r"warum|wieso|wie|was|kann|können|por qué|cómo|qué|pourquoi|comment|"
    r"est-ce)\b(?!.*\b(?:from now on|going forward)\b)|か[。？]?$",
    re.I,
)


def standing(sentence: str) -> float:
    """How surely a user's sentence states a standing rule; 0 where it states none."""
    if len(sentence) > 400 or _QUESTION.search(sentence) or _NOT_STANDING.search(sentence):
        return 0.0
    return max((cue.strength for cue in _STANDING if cue.pattern.search(sentence)), default=0.0)


def is_question(sentence: str) -> bool:
    """Whether a sentence asks."""
    return bool(_QUESTION.search(sentence))
