"""Whether a refusal says that what goes in is longer than the model's window: the history has to be made smaller.

Owns: the wordings of that (case I02), and how they are told from a throttling, from a reply that is too long and from a
field that is. Must not know: statuses, the window's size (windows.py). Loaded with the first refusal.

A compaction loses something, so the text must speak of the window, or of the tokens of what goes in, and say that they
are too many, within one sentence. What is refused only for a time is no overflow, however many tokens it speaks of.
"""

from __future__ import annotations

import re

# Words in lower case.
CERTAIN = (  # said by a server that was seen to say it
    "context_length_exceeded", "context_window_exceeded", "exceed_context_size", "contextwindowexceeded",
    "maximum context length", "max context length", "context length exceeded", "exceeds the context",
    "exceeds the available context", "exceeded the context", "exceed context limit", "context window", "context limit",
    "context size", "context length of only", "greater than the context length", "longer than the model's context",
    "prompt is too long", "prompt too long", "input is too long", "input too long", "input is too large",
    "maximum allowed input length", "exceeds the maximum number of tokens", "maximum prompt length",
    "maximum model length", "max_model_len", "maximum sequence length", "input token count exceeds",
    "input token count (", "exceeded model token limit", "model_max_prompt_tokens_exceeded",
    "range of input length should be", "reduce the length of the messages", "reduce the length of the prompt",
    "reduce the length of the input", "prompt exceeds max length", "max message tokens",
    "`inputs` tokens + `max_new_tokens`", "request_too_large", "tokens_limit_reached", "too long to fit",
    "must be at least 1, got -", "payload size exceeds the limit", "request entity too large", "exceed n_ctx",
    "exceeds n_ctx", "maximum input length", "prompt token count of", "too many input tokens", "max input tokens",
    "`inputs` must have less than", "max_seq_len", "tokens in the prompt cannot exceed",
    "(prompt and prediction) cannot", "size limit exceeded by", "current length is",
    "上下文长度", "输入过长", "输入长度超", "超过模型最大", "提示词过长", "prompt 超长",
)  # fmt: skip
LONGER = (
    r"\b(?:prompt|input|messages?|conversation|history)\b[^.;]{0,60}\b(?:exceed\w*|too (?:long|large)|longer than|"
    r"larger than|greater than)\b[^.;]{0,60}\b(?:tokens?|context|window)\b"
)
COUNTED = (  # that many tokens are more than are taken, in whichever words
    r"\b(?:prompt|input|messages?|conversation|history|request)\b[^.;]{0,60}\b\d[\d,]*[ -]?tokens?\b[^.;]{0,60}"
    r"\b(?:accepts?|allows?|allowed|limit|maximum|at most|only|supports?)\b"
)
MEASURE = (
    r"\btokens\b|\btoken (?:count|limit|length)\b|\b(?:input|prompt|total)_tokens\b|\bcontext(?:_length)?\b|"
    r"\bsequence length\b|\bn_ctx\b"
)
"""What the window is measured in."""
INPUT = r"\b(?:prompt|conversation|chat history|history|transcript)(?: text)?\b"
"""What goes in, in words that mean nothing else."""
TOO_MUCH = (
    r"exceed|\btoo (?:long|large|big|many|much)\b|overflow|\btruncate|\bn_keep\b|\breached\b|\babove\b|\bbeyond\b|"
    r"\b(?:more|longer|larger|greater|bigger|higher)\b.{0,24}\bthan\b|\b(?:over|past) (?:the|its) (?:limit|maximum)|"
    r"\bmust (?:not exceed|be (?:at most|<=?|less|fewer|no more|under|below|within)|have (?:at most|less|fewer))|"
    r"\bonly (?:supports?|allows?|accepts?|takes?)\b|\bat most\b|\bdoes(?:n't| not) fit\b|\d\)? ?>=? ?\(?\d|"
    r"\b(?:but|while|whereas)\b.{0,40}\b(?:limit|maximum|max|window|context)\b"
)
TOO_LONG = r"\btoo (?:long|large|big)\b|\bexceeds?\b.{0,30}\b(?:length|size|limit|maximum)\b"
A_REPLY = (
    r"max_(?:completion_|output_|new_)?tokens|maxoutputtokens|\boutput length|"
    r"\bmax(?:imum)? tokens (?:you|value|must|is|should|cannot)|"
    r"\b(?:completion|output|generated|response|thinking|budget)[ _]tokens"
)
"""What is too long is the reply that is asked for."""
GOES_IN = r"\b(?:prompt|inputs?|messages?|conversation|history|context)\b"
ONE_FIELD = ("string too long", "string_above_max_length", "image", "max_tokens:")
"""What is too long is a field, not the history: no compaction helps."""
ANOTHER = (
    r"\btools?\b|\bfunctions?\b|\bfiles?\b|\bdocuments?\b|\bpages?\b|\baudio\b|\bvideo\b|\bcharacters?\b|"
    r"\bstop sequences?\b|\blogit_bias\b|\blogprobs\b|\bcache_control\b|\bblocks\b|\bbatch\b|\bseconds?\b|"
    r"\b(?:account|organi[sz]ation|plan|subscription|project|balance|credits?|budget|allowance)\b|"
    r"\btimed? ?out\b|\bdeadline\b|\bmemory\b|\bcontext (?:id|canceled|cancelled|deadline)\b"
)
"""What else can be too many or too long."""
FOR_A_TIME = (
    r"\b(?:please )?wait\b|\bslow down\b|\btoo many requests\b|\bin flight\b|"
    r"\b(?:try|retry)(?:ing)? (?:again )?(?:later|(?:in|after) (?:\d|an?\b|some\b))"
)
"""What is refused for a time only."""


def overlong(words: str, param: str, *, broad: bool) -> bool:
    """Whether the words of a refusal (in lower case) say that what goes in is too long. `param`: the field that it
    blames. `broad`: whether wordings count that no server was seen to use; for an error of the server's own they do
    not, for it speaks of other things that are too many as well."""
    if any(word in words for word in CERTAIN):
        return True
    if "array_above_max_length" in words or "array too long" in words:
        named = re.search(r"invalid ['\"`](\w+)", words)
        field = param.partition("[")[0] or (named[1] if named else "")
        return field in ("messages", "input", "contents", "")
    if any(word in words for word in ONE_FIELD):
        return False
    if re.search(LONGER, words):
        return True
    reply = re.search(A_REPLY, words) is not None
    if re.search(COUNTED, words) and not reply:
        return True
    if not broad or for_a_time(words) or (reply and not re.search(GOES_IN, words)):
        return False
    return any(_says_so(sentence) for sentence in re.split(r"[.;\n]\s+", words))


def for_a_time(words: str) -> bool:
    """Whether what is refused is refused for a time only, whatever it is."""
    return re.search(FOR_A_TIME, words) is not None


def _says_so(sentence: str) -> bool:
    if re.search(ANOTHER, sentence):
        return False
    if re.search(INPUT, sentence) and re.search(TOO_LONG, sentence):
        return True
    return bool(re.search(MEASURE, sentence) and re.search(TOO_MUCH, sentence))
